"""Rows of loaders that kshot does not have, by the code of the config's home."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.loaders.finding import entry_loader
from kshot.configs.loaders.places import check_place, place_of
from kshot.configs.names import short
from kshot.configs.rows import Splits
from kshot.configs.scope import located
from kshot.core.errors import DataError, KshotError

_NOT_THE_LOADERS = ("type", "infer_cfg", "eval_cfg")
"""Keys of an entry that the frameworks remove before they make the loader from the others."""


def has_foreign_loader(entry: DatasetEntry) -> bool:
    """Whether the entry names a loader that kshot lacks and a home has."""
    if entry_loader(entry) is not None or not entry.get("type") or short(entry["type"]) == "HFDataset":
        return False
    return entry.scope.home("loader", entry.scope.name(entry["type"])) is not None


def foreign_rows(entry: DatasetEntry, place: Path | None = None) -> Splits:
    """Return the rows that the home's loader gives; ``place`` replaces the path that the config names."""
    name = entry.scope.name(entry["type"])
    home = entry.scope.homes[name.framework]
    options = {key: value for key, value in entry.body.items() if key not in _NOT_THE_LOADERS}
    found = place if place is not None else _named_place(entry)
    if found is not None:
        options["path"] = str(found.resolve())
    try:
        with located(entry.place):
            rows, not_taken = home.rows(name.whole, options, [] if found is None else [found])
            if place is not None and "path" in not_taken:
                raise DataError(f"it takes no path, so it cannot read {place}")
    except KshotError as exc:
        exc.what = f"{name.last} of {home.title} gives no rows: {exc.what}"
        exc.hint = f"{exc.hint} {final_rows_hint(entry)}".strip()
        raise
    entry.note_ignored([key for key in not_taken if key in entry], f"{name.last} of {home.title}")
    return rows


def final_rows_hint(entry: DatasetEntry) -> str:
    """Say how rows are given that need no loader."""
    return f"Or give the rows in final columns: --data {entry.abbr}=FILE_OR_FOLDER."


def _named_place(entry: DatasetEntry) -> Path | None:
    """Return the place that the config names, where kshot finds it and the config may name it."""
    path = entry.get("path")
    if not isinstance(path, str) or not path:
        return None
    place = place_of(entry, path)
    if not place.exists():
        return None
    check_place(entry, place)
    return place


def missing_column(entry: DatasetEntry, splits: Splits) -> str:
    """Return a column that the entry reads and that rows do not have; an empty text if no loader is needed."""
    columns: Any = entry.reader_cfg.get("input_columns") or ()
    wanted = [*(columns.split() if isinstance(columns, str) else columns), entry.reader_cfg.get("output_column")]
    parts: Sequence[Any] = list(splits.values()) if isinstance(splits, Mapping) else [splits]
    named = [column for column in wanted if isinstance(column, str)]
    return next((column for rows in parts for row in rows[:1] for column in named if column not in row), "")
