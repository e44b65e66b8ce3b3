"""Copies of rows: ``num_repeats`` of a loader, and entries of a config that are one dataset asked several times.

OpenCompass has rows several times in a dataset, so that each is asked several times. Here a row stands once, and is
asked as often: every reply is one of its own, and the row stays one question.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.names import short
from kshot.configs.rows import Splits
from kshot.configs.values import repeats
from kshot.core.errors import DataError
from kshot.core.records import Row

_OPTION = "num_repeats"
_TAKE_NO_COPIES = ("CustomDataset",)
"""The dataset classes that ignore the option."""


def copies_of(entry: DatasetEntry) -> int:
    """Return how many copies of each row the entry's loader makes."""
    count = entry.get(_OPTION)
    if count is None or short(entry.get("type", "")) in _TAKE_NO_COPIES:
        return 1
    count = repeats(count, _OPTION, entry.place)
    if count > 1 and entry.repeats > 1:
        hint = "Leave one of them out: each says how often a row is asked."
        raise DataError(f"n cannot be combined with {_OPTION}", where=entry.place, hint=hint)
    return count


def without_copies(entry: DatasetEntry, splits: Splits) -> Splits:
    """Return the rows without the copies that the entry's loader made of them, in the order of the first ones."""
    count = copies_of(entry)
    if count == 1:
        return splits
    if isinstance(splits, Mapping):
        return {name: _each_once(rows, count) for name, rows in splits.items()}
    return _each_once(splits, count)


def _each_once(rows: Sequence[Row], count: int) -> Sequence[Row]:
    """Return one of ``count`` equal rows; rows that are nowhere so often have no copies, and stay as they are."""
    keys = [_key(row) for row in rows]
    total = Counter(keys)
    if max(total.values(), default=0) < count:
        return rows
    seen: Counter[str] = Counter()
    kept = []
    for row, key in zip(rows, keys, strict=True):
        if seen[key] < -(-total[key] // count):
            kept.append(row)
        seen[key] += 1
    return kept


def _key(row: Row) -> str:
    return json.dumps(row, sort_keys=True, default=repr)


def numbers_among_equals(entries: Sequence[DatasetEntry]) -> list[int]:
    """Return for each entry how many before it differ from it by their names alone (``…-run0``, ``…-run1``)."""
    seen: Counter[str] = Counter()
    found = []
    for entry in entries:
        key = repr({name: value for name, value in sorted(entry.body.items()) if name != "abbr"})
        found.append(seen[key])
        seen[key] += 1
    return found
