"""Rows from one file: json, jsonl, csv, tsv or parquet."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from kshot.core.errors import DataError, MissingExtra

KINDS = (".jsonl", ".json", ".csv", ".tsv", ".parquet")

Read: TypeAlias = "list[dict[str, Any]]"
Splits: TypeAlias = "dict[str, list[dict[str, Any]]]"


def load_raw_dataset_from_file(path: str | Path, split: str | None = None) -> list[dict[str, Any]]:
    """Read the rows of one json, jsonl, csv, tsv or parquet file; ``split`` where a JSON file holds several."""
    found = read_file(path)
    if not isinstance(found, Mapping):
        return found
    names = ", ".join(found)
    if split is None:
        if len(found) > 1:
            raise DataError(f"it holds several splits: {names}", where=str(path), hint="Say which: split=NAME.")
        (split,) = found
    if split not in found:
        raise DataError(f"no split {split!r}, only {names}", where=str(path))
    return found[split]


def read_file(path: str | Path) -> Read | Splits:
    """Read a file as it is: rows, or the rows of each split."""
    file = Path(path).expanduser()
    kind = file.suffix.lower()
    reader = {".json": _json, ".jsonl": _jsonl, ".csv": _csv, ".tsv": _csv, ".parquet": _parquet}.get(kind)
    if reader is None:
        raise DataError(f"files of type {kind!r} cannot be read", where=str(file), hint=f"Known: {', '.join(KINDS)}.")
    try:
        return reader(file)
    except OSError as exc:
        raise DataError(f"the file cannot be read: {exc.strerror or exc}", where=str(file)) from exc
    except UnicodeDecodeError as exc:
        raise DataError(f"the file is not UTF-8 text (byte {exc.start})", where=str(file)) from exc


def _jsonl(file: Path) -> Read:
    rows = []
    with file.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                rows.append(_row(_parsed(line, file, number), f"{file}:{number}"))
    return rows


def _parsed(line: str, file: Path, number: int) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as exc:
        raise DataError(f"this line is not JSON: {exc.msg}", where=f"{file}:{number}") from exc


def _row(row: Any, where: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise DataError(f"a row must be an object of named fields, not {type(row).__name__}", where=where)
    return row


def _json(file: Path) -> Read | Splits:
    text = file.read_text(encoding="utf-8-sig")
    try:
        found = json.loads(text)
    except json.JSONDecodeError as exc:
        if exc.msg == "Extra data":  # several objects: JSON lines under the name of JSON
            return _jsonl(file)
        raise DataError(f"this is not JSON: {exc.msg}", where=f"{file}:{exc.lineno}") from exc
    if isinstance(found, dict):
        if not _holds_splits(found):
            return [found]
        return {name: [_row(r, f"{file}, {name} row {i}") for i, r in enumerate(rows)] for name, rows in found.items()}
    if not isinstance(found, list):
        raise DataError("a list of rows is expected", where=str(file))
    return [_row(row, f"{file}, row {index}") for index, row in enumerate(found)]


def _holds_splits(found: dict[str, Any]) -> bool:
    """Whether an object is splits of rows, and not one row whose fields are lists."""
    lists = list(found.values())
    if not lists or not all(isinstance(value, list) for value in lists):
        return False
    return not any(lists) or any(isinstance(row, dict) for value in lists for row in value)


def _csv(file: Path) -> Read:
    rows: Read = []
    with file.open(encoding="utf-8-sig", newline="") as lines, _long_fields():
        reader = csv.DictReader(lines, delimiter="\t" if file.suffix.lower() == ".tsv" else ",", strict=True)
        names = list(reader.fieldnames or ())
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(f"the header names the column {twice!r} twice", where=f"{file}:1")
        try:
            for row in reader:
                if None in row or None in row.values():
                    width = len(reader.fieldnames or ())
                    where = f"{file}:{reader.line_num}"
                    raise DataError(f"this row has not the {width} fields of the header", where=where)
                rows.append(row)
        except csv.Error as exc:
            raise DataError(f"this line is not CSV: {exc}", where=f"{file}:{reader.reader.line_num}") from exc
    return rows


@contextmanager
def _long_fields() -> Iterator[None]:
    """Lift the csv module's limit of 128 KiB a field: documents are longer."""
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _parquet(file: Path) -> Read:
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as exc:
        raise MissingExtra("pyarrow", "datasets", "reading parquet files") from exc
    try:
        rows: Read = pyarrow.parquet.read_table(file).to_pylist()
    except pa.ArrowInvalid as exc:
        raise DataError(f"this is not a parquet file: {exc}", where=str(file)) from exc
    return rows
