"""Values of CSV columns, as the frameworks' reader of CSV gives them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kshot.core.records import Row

_NOTHING = frozenset(
    ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
     "NULL", "NaN", "None", "n/a", "nan", "null")
)  # fmt: skip
_WHOLE = re.compile(r" *[+-]?\d{1,20} *")
_FRACTION = re.compile(r" *[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity) *", re.IGNORECASE)
_TRUTH = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}


def typed(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Read the columns that hold numbers or truth values alone as such; a word for nothing becomes None."""
    columns = {name: _values([row.get(name) for row in rows]) for name in (rows[0] if rows else ())}
    return [{name: values[number] for name, values in columns.items()} for number in range(len(rows))]


def _values(values: list[Any]) -> list[Any]:
    given = [None if value is None or value in _NOTHING else value for value in values]
    present = [value for value in given if value is not None]
    read = _reader(present, whole=len(present) == len(given)) if present else None
    return given if read is None else [None if value is None else read(value) for value in given]


def _reader(present: list[str], *, whole: bool) -> Callable[[str], Any] | None:
    """Return what reads all these texts; whole numbers in a column with gaps are read as fractions."""
    if all(_WHOLE.fullmatch(value) and -(2**63) <= int(value) < 2**64 for value in present):
        return int if whole else float
    if all(_FRACTION.fullmatch(value) for value in present):
        return float
    if all(value in _TRUTH for value in present):
        return _TRUTH.__getitem__
    return None
