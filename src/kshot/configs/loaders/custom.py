"""Rows of one's own: ``CustomDataset`` and ``CodeCustomDataset``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kshot.configs.loaders.reading import DataPlace, Loader, MissingFileError
from kshot.configs.rows import Splits
from kshot.core.errors import DataError
from kshot.core.records import Row


def _custom(place: DataPlace, *, repeated: bool) -> Splits:
    """Read JSON lines, or CSV whose first line is the header."""
    if place.root.is_file():
        path = place.file()
    elif place.options.get("file_name") is None:
        raise MissingFileError("it is a folder, and the config names no file_name", where=str(place.root))
    else:
        path = place.file(place.text("file_name"))
    rows = _rows(place, path)
    if place.framework == "ais_bench":
        rows = [_with_length(row) for row in rows]
    return [row for row in rows for _ in range(place.number("num_repeats", 1))] if repeated else rows


def _rows(place: DataPlace, path: Path) -> list[Row]:
    if path.suffix == ".jsonl":
        return place.json_lines(path)
    if path.suffix != ".csv":
        raise MissingFileError("it is neither a .jsonl nor a .csv file", where=str(path))
    lines = place.csv(path)
    header = next((fields for _, fields in lines), None)
    if header is None:
        raise DataError("it has no header", where=str(path))
    return [dict(zip(header, fields, strict=False)) for _, fields in lines]


def _with_length(row: Row) -> Row:
    """Rename a row's own limit on the length of its reply, as AISBench does."""
    if "max_tokens" not in row:
        return row
    rest = {name: value for name, value in row.items() if name != "max_tokens"}
    return rest if row["max_tokens"] is None else {**rest, "max_out_len": row["max_tokens"]}


LOADERS = {
    "CustomDataset": Loader(partial(_custom, repeated=False)),
    "CodeCustomDataset": Loader(partial(_custom, repeated=True)),
}
