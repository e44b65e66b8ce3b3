"""Rows from one file: json, jsonl, csv, tsv or parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from kshot.core.errors import DataError
from kshot.core.extras import importing
from kshot.core.json_text import parse_first_json, parse_json
from kshot.core.text_files import MAX_LINE_CHARACTERS, check_regular, lines_of, read_whole

FILE_SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")

FileRows: TypeAlias = "list[dict[str, Any]]"
"""The rows of a file without splits."""

FileSplits: TypeAlias = "dict[str, list[dict[str, Any]]]"
"""The rows of each split of a JSON file."""

MAX_PARQUET_BYTES = 8 << 30
_PARQUET_BATCH = 1024
_JSON_SPACE = " \t\n\r"


def load_raw_dataset_from_file(path: str | Path, split: str | None = None) -> list[dict[str, Any]]:
    """Read the rows of one json, jsonl, csv, tsv or parquet file; ``split`` chooses where a JSON file has several."""
    found = read_file(path)
    if not isinstance(found, Mapping):
        return found
    names = ", ".join(found)
    if split is None:
        if len(found) > 1:
            raise DataError(f"it has several splits: {names}", where=str(path), hint="Choose one with split=NAME.")
        (split,) = found
    if split not in found:
        raise DataError(f"it has no split {split!r}, only {names}", where=str(path))
    return found[split]


def read_file(path: str | Path) -> FileRows | FileSplits:
    """Read a file as it is: its rows, or the rows of each split."""
    file = Path(path).expanduser()
    suffix = file.suffix.lower()
    reader = {".json": _json, ".jsonl": _jsonl, ".csv": _csv, ".tsv": _csv, ".parquet": _parquet}.get(suffix)
    if reader is None:
        known = ", ".join(FILE_SUFFIXES)
        raise DataError(f"files of type {suffix!r} cannot be read", where=str(file), hint=f"Known types: {known}.")
    try:
        check_regular(file)
        return reader(file)
    except OSError as exc:
        raise DataError(f"the file cannot be read: {exc.strerror or exc}", where=str(file)) from exc
    except UnicodeDecodeError as exc:
        raise DataError(f"the file is not UTF-8 text (byte {exc.start})", where=str(file)) from exc


def _jsonl(file: Path) -> FileRows:
    rows = []
    with file.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines_of(lines, file), start=1):
            if line.strip():
                rows.append(_row(_parsed(line, file, number), f"{file}:{number}"))
    return rows


def _parsed(line: str, file: Path, number: int) -> Any:
    try:
        return parse_json(line)
    except ValueError as exc:
        reason = exc.msg if isinstance(exc, json.JSONDecodeError) else exc
        raise DataError(f"this line is not JSON: {reason}", where=f"{file}:{number}") from exc


def _row(row: Any, where: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise DataError(f"a row must be an object with named fields, not {type(row).__name__}", where=where)
    return row


def _json(file: Path) -> FileRows | FileSplits:
    text = read_whole(file).decode("utf-8-sig")
    start = len(text) - len(text.lstrip(_JSON_SPACE))
    try:
        found, end = parse_first_json(text, start)
    except json.JSONDecodeError as exc:
        raise DataError(f"this is not JSON: {exc.msg}", where=f"{file}:{exc.lineno}") from exc
    except ValueError as exc:
        raise DataError(f"its JSON cannot be read: {exc}", where=str(file)) from exc
    if text[end:].strip(_JSON_SPACE):  # several values: JSON lines in a file called .json
        return _jsonl(file)
    if isinstance(found, dict):
        if not _has_splits(found):
            return [found]
        return {name: [_row(r, f"{file}, {name} row {i}") for i, r in enumerate(rows)] for name, rows in found.items()}
    if not isinstance(found, list):
        raise DataError("the file must hold a list of rows", where=str(file))
    return [_row(row, f"{file}, row {index}") for index, row in enumerate(found)]


def _has_splits(found: dict[str, Any]) -> bool:
    """Whether an object is splits of rows, rather than one row whose fields are lists."""
    lists = list(found.values())
    if not lists or not all(isinstance(value, list) for value in lists):
        return False
    return not any(lists) or any(isinstance(row, dict) for value in lists for row in value)


def _csv(file: Path) -> FileRows:
    rows: FileRows = []
    with file.open(encoding="utf-8-sig", newline="") as lines, long_fields():
        reader = csv.DictReader(
            lines_of(lines, file), delimiter="\t" if file.suffix.lower() == ".tsv" else ",", strict=True
        )
        try:
            names = list(reader.fieldnames or ())
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise DataError(f"the header names the column {twice!r} twice", where=f"{file}:1")
            for row in reader:
                if None in row or None in row.values():
                    where = f"{file}:{reader.line_num}"
                    raise DataError(f"this row does not have the {len(names)} fields of the header", where=where)
                rows.append(row)
        except csv.Error as exc:
            raise DataError(f"this line is not CSV: {exc}", where=f"{file}:{reader.reader.line_num}") from exc
    return rows


@contextmanager
def long_fields() -> Iterator[None]:
    """Raise the csv module's limit of 128 KiB for a field: documents are longer."""
    before = csv.field_size_limit(MAX_LINE_CHARACTERS)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _parquet(file: Path) -> FileRows:
    with importing("reading parquet files", "pyarrow"):
        import pyarrow as pa
        import pyarrow.parquet

    rows: FileRows = []
    size = 0
    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            _check_parquet_size(table.metadata.num_rows * max(1, table.metadata.num_columns), file)
            for batch in table.iter_batches(_PARQUET_BATCH):  # a small file can hold one value a billion times
                size += batch.nbytes
                _check_parquet_size(size, file)
                rows += batch.to_pylist()
    except (pa.ArrowException, ValueError) as exc:
        raise DataError(f"this parquet file cannot be read: {exc}", where=str(file)) from exc
    return rows


def _check_parquet_size(size: int, file: Path) -> None:
    """Refuse rows that would fill the memory; each value takes a byte or more."""
    if size > MAX_PARQUET_BYTES:
        what = f"its rows are above the limit of {MAX_PARQUET_BYTES >> 30} GB for a parquet file"
        raise DataError(what, where=str(file), hint="Cut it into several files.")
