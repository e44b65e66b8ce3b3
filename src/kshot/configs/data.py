"""Where the rows of a config's entry come from: ``--data``, its ``path``, or the hub."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.loaders.finding import (
    HUB,
    SPELLINGS,
    RowsFinder,
    entry_loader,
    final_rows_hint,
    foreign_rows,
    has_foreign_loader,
    missing_column,
    split_names,
)
from kshot.configs.loaders.places import check_place, looked_at, place_of
from kshot.configs.loaders.reading import typed
from kshot.configs.names import short
from kshot.configs.rows import Splits, each_split
from kshot.configs.values import repeats
from kshot.core.errors import DataError, KshotError, UsageError
from kshot.core.records import Row
from kshot.tables.files import read_file
from kshot.tables.loading import get_raw_dataset_loader

_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_FILE_KINDS = ("json", "csv", "parquet")
"""What ``path`` says of an entry that lists its files."""


class OnHub(DataError):  # noqa: N818 - it names where the rows are
    """Rows that are not here, and for which a run would ask the hub; ``dataset`` is what they are called there."""

    def __init__(self, dataset: str, *, where: str, hint: str) -> None:
        """Keep the name beside what every error has."""
        super().__init__(f"its rows are not here; a run would ask the hub for {dataset}", where=where, hint=hint)
        self.dataset = dataset


def read_data(texts: Sequence[str]) -> dict[str, str]:
    """Return the places that ``KEY=FILE_OR_FOLDER`` options name, by key."""
    found: dict[str, str] = {}
    for text in texts:
        key, sign, place = text.partition("=")
        if not sign or not key or not place:
            raise UsageError(f"--data {text!r} cannot be read", hint="Write --data NAME=FILE_OR_FOLDER.")
        if found.setdefault(key, place) != place:
            raise UsageError(f"--data {key}=… is given twice, with different places")
    return found


def names_of(entry: DatasetEntry) -> list[str]:
    """Return the names by which ``--data`` may mean an entry."""
    found = [entry.abbr, entry.get("name"), short(entry.get("type", "")), entry.get("path")]
    return [str(key) for key in found if isinstance(key, str) and key]


def given_text(entry: DatasetEntry, data: Mapping[str, str], default: str | None) -> str | None:
    """Return the place that the user names for the rows of an entry; None if there is none."""
    return next((data[key] for key in names_of(entry) if key in data), default) if data else default


def splits_of(
    entry: DatasetEntry, data: Mapping[str, str] | None = None, default: str | None = None, *, online: bool = True
) -> Splits:
    """Find the rows of an entry: in the user's ``data`` by its abbr, name or loader; at its ``path``; on the hub.

    The user may name any place. A config may name places in its project, and where the frameworks keep data. A loader
    that kshot lacks is its home's. ``online=False``: the hub is not asked.
    """
    given = given_text(entry, data or {}, default)
    if given is not None:
        return _given(entry, given)
    finder = RowsFinder(entry, partial(check_place, entry))
    listed = _listed_files(entry)
    if listed is not None:
        finder.note_ignored(("data_files", "split"))
        return finder.fitted(listed)
    if has_foreign_loader(entry):
        return foreign_rows(entry)
    path = entry.get("path")
    if not isinstance(path, str) or not path:
        folder = _package_folder(entry)
        return _hub(entry, online=online) if folder is None else RowsFinder(entry, Path).read(folder)
    place = place_of(entry, path)
    return _read(finder, place) if os.path.exists(place) else _hub(entry, online=online)  # noqa: PTH110 - as below


def _given(entry: DatasetEntry, text: str) -> Splits:
    """Read the rows at a place of the user's: a file, a folder, or a pattern with ``{split}`` and ``{subset}``."""
    finder = RowsFinder(entry, Path, given=True)
    place = Path(os.path.expanduser(text))  # noqa: PTH111 - pathlib raises for users that there are not
    if os.path.exists(place):  # noqa: PTH110 - pathlib raises for names that are too long
        return _foreign_or_plain(entry, finder, place) if has_foreign_loader(entry) else _read(finder, place)
    wrong = [name for name in _PLACEHOLDER.findall(text) if name not in ("split", "subset")]
    if wrong:
        what = f"the pattern has {{{wrong[0]}}}, and there is no such placeholder"
        raise DataError(what, where=text, hint="There are {split}, the config's split, and {subset}, the entry's name.")
    if "{split}" in text or "{subset}" in text:
        return finder.fitted(finder.pattern(text))
    raise DataError("there is no such file or folder", where=str(place))


def _read(finder: RowsFinder, place: Path) -> Splits:
    """Read the rows at a place. Without the loader of a framework they must have the columns that it would make."""
    found, kind = finder.read(place), finder.entry.get("type", "")
    named = finder.entry.scope.name(kind)
    lacks_loader = finder.loader is None and named.framework and named.last not in ("", "HFDataset")
    if lacks_loader and (column := missing_column(finder.entry, found)):
        raise DataError(
            f"kshot has no loader {named.last}, and the rows have no column {column!r}",
            where=f"{finder.entry.place}: {place}",
            hint=f"{finder.entry.scope.searched(kind)} {final_rows_hint(finder.entry)}".strip(),
        )
    return found


def _foreign_or_plain(entry: DatasetEntry, finder: RowsFinder, place: Path) -> Splits:
    """Read rows in final columns as they are; anything else is the home's loader's."""
    try:
        plain = finder.read(place)
    except DataError as exc:
        try:
            return foreign_rows(entry, place)
        except KshotError as foreign:
            exc.hint = f"{exc.hint} {foreign}".strip()
            raise exc from foreign
    if not missing_column(entry, plain):
        entry.used.pop(("loader", short(entry["type"])), None)
        return plain
    return foreign_rows(entry, place)


def _package_folder(entry: DatasetEntry) -> Path | None:
    """Return the data of a package that holds the rows of a loader; None where it is not installed."""
    loader = entry_loader(entry)
    found = find_spec(loader.package) if loader is not None and loader.package else None
    return Path(found.origin).parent / "data" if found is not None and found.origin else None


def _listed_files(entry: DatasetEntry) -> Splits | None:
    """Read ``dict(type=HFDataset, path='json', data_files=…)``: a file, several, or some for each split.

    With ``split`` the rows have no splits any more: they are both train and test.
    """
    files, kind = entry.get("data_files"), entry.get("path")
    if not files or kind not in _FILE_KINDS:
        return None
    named = files if isinstance(files, Mapping) else {"train": files}
    found: dict[str, list[Row]] = {}
    for split, given in named.items():
        listed = [given] if isinstance(given, str) else given
        if not isinstance(listed, Sequence) or not all(isinstance(file, str) for file in listed):
            what = f"data_files must name a file, several, or some for each split, not {given!r:.80}"
            raise DataError(what, where=entry.place)
        for file in listed:
            found.setdefault(str(split), []).extend(_listed(entry, file, str(split)))
        if kind == "csv" and entry.framework:
            found[str(split)] = typed(found[str(split)])
    alone = entry.get("split")
    return found[alone] if isinstance(alone, str) and alone in found else found


def _listed(entry: DatasetEntry, file: str, split: str) -> Sequence[Row]:
    place = place_of(entry, file)
    if not place.is_file():
        hint = f"Give its rows: --data {entry.abbr}=FILE_OR_FOLDER."
        raise DataError("there is no such file", where=f"{entry.place}: {place}", hint=hint)
    check_place(entry, place)
    read = read_file(place)
    return read if isinstance(read, list) else read.get(split, [])


def _hub(entry: DatasetEntry, *, online: bool) -> Splits:
    """Read the rows on the hub: by the entry's loader, or in columns that the loader changes to its own."""
    kind, name, loader = short(entry.get("type", "?")), entry.get("name"), entry_loader(entry)
    hub = _hub_name(entry)
    if hub is None:
        _no_rows(entry, kind, entry.get("path"))
    if not online:
        raise OnHub(hub, where=entry.place, hint=_hint(entry, "Or give them"))
    finder = RowsFinder(entry, partial(check_place, entry))
    if loader is not None and loader.hub:
        try:
            return finder.load(loader, Path(str(entry.get("path"))), hub)
        except KshotError as exc:
            exc.where, exc.hint = entry.place, _hint(entry)
            raise
    subset = str(name) if isinstance(name, str) else HUB[kind][1] if kind in HUB else None
    load = get_raw_dataset_loader(entry.abbr, None, None, (hub, subset) if subset else (hub,), finder.check)
    found: dict[str, Sequence[Row]] = {}
    for split, needed in split_names(entry).items():
        spelled = SPELLINGS.get(split.lower(), (split.lower(),))
        try:
            found[split] = load("validation" if "validation" in spelled else spelled[0])
        except KshotError as exc:
            if needed:
                exc.where, exc.hint = entry.place, _hint(entry)
                raise
    finder.note_ignored()
    return finder.fitted(found)


def _hub_name(entry: DatasetEntry) -> str | None:
    """Return the dataset on the hub that has the entry's rows; None where there is none."""
    kind, path, loader = short(entry.get("type", "?")), entry.get("path"), entry_loader(entry)
    if loader is not None and loader.hub:
        own = isinstance(path, str) and path.count("/") == 1 and not path.startswith((".", "opencompass/"))
        return str(path) if own else loader.hub
    if kind in HUB:
        return HUB[kind][0]
    return path if kind == "HFDataset" and isinstance(path, str) and path else None


def _hint(entry: DatasetEntry, give: str = "Give its rows", forms: str = "") -> str:
    """Return where kshot looked for the rows, and how to give them."""
    return f"{looked_at(entry)} {give}: --data {entry.abbr}=FILE_OR_FOLDER{forms}.".strip()


def _no_rows(entry: DatasetEntry, kind: str, path: Any) -> NoReturn:
    """Raise the error that an entry's rows are nowhere."""
    missing = "it has no path" if path is None else f"its path {path!r} is not here"
    if entry_loader(entry) is not None:
        what = missing
    else:
        lacking = f"kshot has no loader {kind}" if kind != "?" else "it names no loader (type)"
        what = f"{lacking}, and {missing}"
    searched = entry.scope.searched(entry.get("type", "")) if entry_loader(entry) is None and kind != "?" else ""
    hint = _hint(entry, forms=" (train and test as jsonl, json, csv or parquet)")
    raise DataError(what, where=entry.place, hint=f"{searched} {hint}".strip())


# ---- copies of rows ----
# OpenCompass has rows several times in a dataset, so that each is asked several times. Here a row stands once, and is
# asked as often: every reply is one of its own, and the row stays one question.

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
    return each_split(splits, lambda rows: _each_once(rows, count))


def _each_once(rows: Sequence[Row], count: int) -> Sequence[Row]:
    """Return one of ``count`` equal rows; rows that are nowhere so often have no copies, and stay as they are."""
    keys = [json.dumps(row, sort_keys=True, default=repr) for row in rows]
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


def numbers_among_equals(entries: Sequence[DatasetEntry]) -> list[int]:
    """Return for each entry how many before it differ from it by their names alone (``…-run0``, ``…-run1``)."""
    seen: Counter[str] = Counter()
    found = []
    for entry in entries:
        key = repr({name: value for name, value in sorted(entry.body.items()) if name != "abbr"})
        found.append(seen[key])
        seen[key] += 1
    return found
