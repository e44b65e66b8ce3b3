"""Rows of one split, such as ``test[:100]``, and of one file: json, jsonl, csv, tsv or parquet."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias, runtime_checkable

from kshot.core.copies import own_copy
from kshot.core.errors import DataError
from kshot.core.extras import importing
from kshot.core.records import Row
from kshot.core.text_files import MAX_LINE_CHARACTERS, check_regular, lines_of, parse_first_json, parse_json, read_whole

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class QuoteFault:
    """What is wrong: in which field (from 0), and how many lines below the start of the record."""

    what: str
    field: int
    lines: int


def quote_fault(text: str, delimiter: str) -> QuoteFault | None:
    """Find the first fault in the quotes of a record; None if they are in order."""
    plain_end = re.compile(f"[{re.escape(delimiter)}\r\n]")
    place = field = 0
    while place < len(text):
        if text[place] == '"':
            end = _closing(text, place)
            if end is None:
                return QuoteFault("a quote is opened and never closed", field, _lines(text, place))
            after = text[end + 1 : end + 2]
            if after not in {"", delimiter, "\r", "\n"}:
                shown = text[end + 1 : end + 1 + _SHOWN].splitlines()[0]
                return QuoteFault(f"text follows the closing quote: {shown!r}", field, _lines(text, end))
            place = end + 1
        else:
            found = plain_end.search(text, place)
            place = len(text) if found is None else found.start()
        if text[place : place + 1] != delimiter:
            return None  # the record ends here
        place, field = place + 1, field + 1
    return None


def _closing(text: str, start: int) -> int | None:
    """Return the place of the quote that closes the one at ``start``; two in a row stand for a quote in the text."""
    place = start + 1
    while (found := text.find('"', place)) >= 0:
        if text[found + 1 : found + 2] != '"':
            return found
        place = found + 2
    return None


def _lines(text: str, place: int) -> int:
    return text.count("\n", 0, place)


DELIMITERS = (",", ";", "\t", "|")
_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_NAMES_LISTED = 8
_SAMPLE_RECORDS = 50
_SAMPLE_CHARACTERS = 1 << 16
_SEPARATOR_LINE = "sep="
"""Spreadsheets write ``sep=;`` into the first line to say what the delimiter is."""


def csv_rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a file, each with the number of its first line."""
    first, delimiter = _form(file)
    with file.open(encoding="utf-8-sig", newline="") as opened, long_fields():
        for _ in range(first):
            opened.readline()
        yield from _CsvReader(file, opened, delimiter, first).rows()


@contextmanager
def long_fields() -> Iterator[None]:
    """Raise the csv module's limit of 128 KiB for a field: documents are longer."""
    before = csv.field_size_limit(MAX_LINE_CHARACTERS)
    try:
        yield
    finally:
        csv.field_size_limit(before)


# ---- the delimiter ----


def _form(file: Path) -> tuple[int, str]:
    """Return how many lines stand before the header, and the delimiter."""
    with file.open(encoding="utf-8-sig", newline="") as opened:
        sample = opened.read(_SAMPLE_CHARACTERS)
    lines = sample.splitlines(keepends=True)
    if lines and lines[0].lower().startswith(_SEPARATOR_LINE):
        named = lines[0].rstrip("\r\n")[len(_SEPARATOR_LINE) :]
        if named in DELIMITERS:
            return 1, named
    usual = "\t" if file.suffix.lower() == ".tsv" else ","
    return 0, max((usual, *DELIMITERS), key=lambda each: _fit(lines, each))


def _fit(lines: Sequence[str], delimiter: str) -> float:
    """Return how well a delimiter fits: the columns that it makes, less where rows do not have them."""
    rows = []
    try:
        for row in islice(csv.reader(lines, delimiter=delimiter, strict=True), _SAMPLE_RECORDS):
            if row:
                rows.append(row)  # noqa: PERF401 - what was read before an error counts
    except csv.Error:
        pass  # the end of the sample, or a fault that reading the file will name
    if not rows:
        return 0.0
    width, others = len(rows[0]), rows[1:]
    alike = sum(len(row) == width for row in others) / len(others) if others else 1.0
    return (width - 1) * (0.1 + alike)


# ---- rows ----


class _CsvReader:
    """Reads the records of an open file, and keeps the lines of the present one for messages."""

    def __init__(self, file: Path, opened: IO[str], delimiter: str, before: int) -> None:
        self._file, self._delimiter = file, delimiter
        self._lines = lines_of(opened, file)
        self._record: list[str] = []
        self._start, self._line = before + 1, before
        self._names: list[str] = []

    def rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield each row below the header."""
        for record in self._records():
            if not record:
                continue
            if not self._names:
                self._names = self._header(record)
                continue
            yield self._start, self._row(record)

    def _records(self) -> Iterator[list[str]]:
        reader = csv.reader(self._kept(), delimiter=self._delimiter, strict=True)
        while True:
            self._record, self._start = [], self._line + 1
            try:
                record = next(reader)
            except StopIteration:
                return
            except csv.Error as exc:
                raise self._not_csv(exc) from exc
            yield record

    def _kept(self) -> Iterator[str]:
        for line in self._lines:
            self._line += 1
            self._record.append(line)
            yield line

    def _header(self, names: list[str]) -> list[str]:
        first: dict[str, int] = {}
        for number, name in enumerate(names, start=1):
            if name and first.setdefault(name, number) != number:
                numbers = f"columns {first[name]} and {number}"
                raise DataError(
                    f"the header names the column {name!r} twice ({numbers})",
                    where=f"{self._file}:{self._start}",
                    hint="Give each column a name of its own.",
                )
        return names

    def _row(self, record: list[str]) -> dict[str, Any]:
        names, where = self._names, f"{self._file}:{self._start}"
        if len(record) == len(names):
            if "" in names:
                self._check_nameless(record, where)
            return dict(zip(names, record, strict=True))
        counted = f"this row does not have the {len(names)} fields of the header, but {len(record)}"
        if len(record) > len(names):
            what = f"{counted}: field {len(names) + 1} ({record[len(names)]!r:.40}) has no column"
            raise DataError(what, where=where, hint=self._too_many())
        lacking = ", ".join(map(repr, names[len(record) :][:_NAMES_LISTED]))
        raise DataError(f"{counted}: nothing is left for column {lacking}", where=where, hint=self._too_few())

    def _check_nameless(self, record: list[str], where: str) -> None:
        """Refuse values of columns without a name, if there are several such columns."""
        nameless = [number for number, name in enumerate(self._names) if not name]
        for number in nameless if len(nameless) > 1 else ():
            if record[number]:
                what = f"column {number + 1} has no name in the header, and here it holds {record[number]!r:.40}"
                raise DataError(what, where=where, hint="Name it in the first line.")

    def _too_many(self) -> str:
        mark = "a tab" if self._delimiter == "\t" else repr(self._delimiter)
        return f"Put quotes around a text that contains {mark}, with no space before the quotes."

    def _too_few(self) -> str:
        text = "".join(self._record)
        other = next((each for each in DELIMITERS if each != self._delimiter and text.count(each) > 1), None)
        if other is None:
            return "A field that is empty needs its delimiter too."
        return f"The header is separated by {_NAMES[self._delimiter]}, this line perhaps by {_NAMES[other]}."

    def _not_csv(self, exc: csv.Error) -> DataError:
        """Say what is wrong with the quotes of the present record, in which line and column."""
        text = "".join(self._record)
        if len(text) > MAX_LINE_CHARACTERS:
            what = f"a field is above the limit of {MAX_LINE_CHARACTERS >> 20} million characters"
            return DataError(what, where=f"{self._file}:{self._start}", hint="Perhaps a quote is never closed.")
        fault = quote_fault(text, self._delimiter)
        if fault is None:
            return DataError(f"this line is not CSV: {exc}", where=f"{self._file}:{self._line or 1}")
        named = self._names[fault.field : fault.field + 1]
        column = f"column {named[0]!r}" if named else f"field {fault.field + 1}"
        return DataError(
            f"this line is not CSV: in the {column} {fault.what}",
            where=f"{self._file}:{self._start + fault.lines}",
            hint='Inside quotes, a quote is written twice: "".',
        )


# ---- files of all kinds ----

Rows: TypeAlias = Sequence[Row]

_SPLIT = re.compile(r"^(?P<name>[^\[\]+]+)(?:\[(?P<start>-?\d{1,18}%?)?:(?P<stop>-?\d{1,18}%?)?\])?$")


@runtime_checkable
class _SelectableRows(Protocol):
    """A Hugging Face dataset, which selects rows without reading the others."""

    def select(self, indices: Iterable[int], /) -> Rows: ...


def slice_rows(rows: Rows, split: str, where: str = "") -> Rows:
    """Apply the slice of a split such as ``test[:100]`` or ``train[10%:20%]``."""
    parts = _SPLIT.match(split.strip())
    if parts is None:
        raise DataError(
            f"the split {split!r} cannot be read", where=where, hint="Write test, test[:100] or test[10%:20%]."
        )
    size = len(rows)
    start, stop = (_bound(parts[name], size) for name in ("start", "stop"))
    if start is None and stop is None:
        return rows
    chosen = range(size)[start:stop]
    return rows.select(chosen) if isinstance(rows, _SelectableRows) else [rows[i] for i in chosen]


def _bound(text: str | None, size: int) -> int | None:
    if text is None:
        return None
    return round(int(text[:-1]) * size / 100) if text.endswith("%") else int(text)


def split_name(split: str) -> str:
    """Return the name of a split without its slice."""
    parts = _SPLIT.match(split.strip())
    return (parts["name"] if parts else split).strip()


def first_rows(rows: Rows, limit: int) -> Rows:
    """Return the first rows; those after them are not read."""
    return rows.select(range(limit)) if isinstance(rows, _SelectableRows) else list(islice(rows, limit))


class LazyRows(Sequence[Row]):
    """Rows that are read when they are first used."""

    def __init__(self, load: Callable[[], Rows]) -> None:
        self._load = load
        self._rows: Rows | None = None

    def _read(self) -> Rows:
        if self._rows is None:
            self._rows = self._load()
        return self._rows

    def __len__(self) -> int:
        return len(self._read())

    def __getitem__(self, index: Any) -> Any:
        return self._read()[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._read())


_KINDS = {
    b"PK\x03\x04": ("a zip archive or an Excel workbook", "Save the sheet as CSV UTF-8."),
    b"\xd0\xcf\x11\xe0": ("an old Excel workbook", "Save the sheet as CSV UTF-8."),
    b"PAR1": ("a parquet file", "Name it .parquet."),
    b"\x1f\x8b": ("compressed by gzip", "Unpack it first."),
    b"%PDF": ("a PDF document", ""),
    b"SQLite format 3": ("a database of SQLite", "Export the table as CSV."),
    b"\xff\xfe\0\0": ("text in UTF-32", "Save it as UTF-8."),
    b"\0\0\xfe\xff": ("text in UTF-32", "Save it as UTF-8."),
    b"\xff\xfe": ("text in UTF-16", "Save it as UTF-8."),
    b"\xfe\xff": ("text in UTF-16", "Save it as UTF-8."),
}
_HEAD_BYTES = 4096


def check_text(file: Path) -> None:
    """Refuse a file that its first bytes show to be no text; raise ``OSError`` if it cannot be read."""
    with file.open("rb") as opened:
        head = opened.read(_HEAD_BYTES)
    for mark, (kind, hint) in _KINDS.items():
        if head.startswith(mark):
            raise DataError(f"it is {kind}, not text in UTF-8", where=str(file), hint=hint)
    if b"\0" in head:
        line, column = _place(head, head.index(b"\0"))
        what = f"it is a binary file, not text: byte {column} of this line is 0"
        raise DataError(what, where=f"{file}:{line}", hint="Save the rows as CSV, JSON lines or parquet.")


def not_utf8(file: Path) -> DataError:
    """Return the error for a file that is not UTF-8: it names the line and the column of the first wrong byte."""
    what, where = "the file is not UTF-8 text", str(file)
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            wrong = _first_wrong(line)
            if wrong is not None:
                character = len(line[:wrong].decode()) + 1
                what += f" (byte 0x{line[wrong]:02x} at character {character})"
                where = f"{file}:{number}"
                break
    return DataError(what, where=where, hint="Save it as UTF-8 (in Excel: CSV UTF-8).")


def _first_wrong(line: bytes) -> int | None:
    """Return the place of the first byte that is no part of UTF-8 text."""
    try:
        line.decode()
    except UnicodeDecodeError as exc:
        return exc.start
    return None


def _place(content: bytes, index: int) -> tuple[int, int]:
    """Return the line and the byte within it, both from 1."""
    before = content[:index]
    return before.count(b"\n") + 1, index - (before.rfind(b"\n") + 1) + 1


FILE_SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")

FileRows: TypeAlias = "list[dict[str, Any]]"
"""The rows of a file without splits."""

FileSplits: TypeAlias = "dict[str, list[dict[str, Any]]]"
"""The rows of each split of a JSON file."""

_Placed: TypeAlias = "list[tuple[str, dict[str, Any]]]"
"""Rows, each after its place."""

_Found: TypeAlias = "_Placed | dict[str, _Placed]"

MAX_PARQUET_BYTES = 8 << 30
_MAX_KEPT_ROWS = 500_000
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
    found = _read(path)
    if isinstance(found, dict):
        return {name: [row for _, row in rows] for name, rows in found.items()}
    return [row for _, row in found]


def read_located(path: str | Path) -> list[LocatedRow] | dict[str, list[LocatedRow]]:
    """Read a file as it is; each row knows its place in it."""
    found = _read(path, lines=True)
    if isinstance(found, dict):
        return {name: [LocatedRow(row, place) for place, row in rows] for name, rows in found.items()}
    return [LocatedRow(row, place) for place, row in found]


class LocatedRow(dict[str, Any]):
    """A row that knows where it stands: ``rows.csv:3``."""

    __slots__ = ("place",)

    def __init__(self, row: Mapping[str, Any], place: str) -> None:
        super().__init__(row)
        self.place = place


class _FilesRead:
    """The rows of the files that were read in a block; a file that has changed is read again."""

    def __init__(self) -> None:
        self._copies: dict[tuple[Any, ...], Callable[[], _Found]] = {}
        self._size = 0

    def rows_of(self, file: Path, *, lines: bool) -> _Found:
        """Return rows that the caller may change."""
        state = file.stat()
        key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, str(file), lines)
        if key not in self._copies:
            found = _parsed_file(file, lines=lines)
            parts = list(found.values()) if isinstance(found, dict) else [found]
            self._size += sum(map(len, parts))
            if self._size > _MAX_KEPT_ROWS:
                return found
            flat = all(type(value) in _FLAT for part in parts for _, row in part for value in row.values())
            self._copies[key] = partial(_copied, found, dict if flat else own_copy)
        return self._copies[key]()


_FLAT = frozenset({str, int, float, bool, type(None)})


def _copied(found: _Found, copied: Callable[[dict[str, Any]], dict[str, Any]]) -> _Found:
    if isinstance(found, dict):
        return {name: [(place, copied(row)) for place, row in rows] for name, rows in found.items()}
    return [(place, copied(row)) for place, row in found]


_FILES_READ: ContextVar[_FilesRead | None] = ContextVar("files_read", default=None)


@contextmanager
def files_read_once() -> Iterator[None]:
    """Read each file once in this block, as long as it does not change; every reader gets rows of its own."""
    token = _FILES_READ.set(_FilesRead())
    try:
        yield
    finally:
        _FILES_READ.reset(token)


def _read(path: str | Path, *, lines: bool = False) -> _Found:
    """Return the rows of a file with their places; ``lines``: rows of a JSON list are counted by lines, too."""
    file, kept = Path(path).expanduser(), _FILES_READ.get()
    if kept is None or not file.is_file():
        return _parsed_file(file, lines=lines)
    return kept.rows_of(file, lines=lines)


def _parsed_file(file: Path, *, lines: bool) -> _Found:
    """Read a file."""
    suffix = file.suffix.lower()
    readers: dict[str, Callable[[Path], _Found]] = {
        ".json": partial(_json, lines=lines), ".jsonl": _jsonl, ".csv": _csv, ".tsv": _csv, ".parquet": _parquet
    }  # fmt: skip
    if suffix not in readers:
        known = ", ".join(FILE_SUFFIXES)
        raise DataError(f"files of type {suffix!r} cannot be read", where=str(file), hint=f"Known types: {known}.")
    try:
        check_regular(file)
        return readers[suffix](file)
    except OSError as exc:
        raise DataError(f"the file cannot be read: {exc.strerror or exc}", where=str(file)) from exc
    except UnicodeDecodeError as exc:
        raise not_utf8(file) from exc


def _jsonl(file: Path) -> _Placed:
    rows = []
    with file.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines_of(lines, file), start=1):
            if line.strip():
                where = f"{file}:{number}"
                rows.append((where, _row(_parsed(line, where), where)))
    return rows


def _parsed(line: str, where: str) -> Any:
    try:
        return parse_json(line.rstrip("\r\n"))
    except json.JSONDecodeError as exc:
        raise DataError(f"this line is not JSON: {exc.msg} (character {exc.colno})", where=where) from exc
    except ValueError as exc:
        raise DataError(f"this line is not JSON: {exc}", where=where) from exc


def _row(row: Any, where: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise DataError(f"a row must be an object with named fields, not {type(row).__name__}", where=where)
    return row


def _json(file: Path, *, lines: bool) -> _Found:
    text = read_whole(file).decode("utf-8-sig")
    start = len(text) - len(text.lstrip(_JSON_SPACE))
    try:
        found, end = parse_first_json(text, start)
    except json.JSONDecodeError as exc:
        what = f"this is not JSON: {exc.msg} (character {exc.colno})"
        raise DataError(what, where=f"{file}:{exc.lineno}") from exc
    except ValueError as exc:
        raise DataError(f"its JSON cannot be read: {exc}", where=str(file)) from exc
    if text[end:].strip(_JSON_SPACE):  # several values: JSON lines in a file called .json
        return _jsonl(file)
    if isinstance(found, dict):
        return (
            {name: _listed(f"{file}, {name}", rows) for name, rows in found.items()}
            if _has_splits(found)
            else [(str(file), found)]
        )
    if not isinstance(found, list):
        raise DataError("the file must hold a list of rows", where=str(file))
    if not lines:
        return _listed(f"{file},", found)
    places = [f"{file}:{line}" for line in _lines_of_list(text, start)]
    return [(place, _row(row, place)) for place, row in zip(places, found, strict=True)]


def _listed(before: str, rows: list[Any]) -> _Placed:
    return [(f"{before} row {index}", _row(row, f"{before} row {index}")) for index, row in enumerate(rows)]


def _lines_of_list(text: str, start: int) -> Iterator[int]:
    """Yield the line where each value of a JSON list begins, which stands at ``start`` and has been read already."""
    place, line, counted = _next_value(text, start + 1), 1, 0
    while text[place] != "]":
        line, counted = line + text.count("\n", counted, place), place
        yield line
        _, end = parse_first_json(text, place)
        place = _next_value(text, end)


_BETWEEN = re.compile(r"[\s,]*")


def _next_value(text: str, place: int) -> int:
    found = _BETWEEN.match(text, place)
    return place if found is None else found.end()


def _has_splits(found: dict[str, Any]) -> bool:
    """Whether an object is splits of rows, rather than one row whose fields are lists."""
    lists = list(found.values())
    if not lists or not all(isinstance(value, list) for value in lists):
        return False
    return not any(lists) or any(isinstance(row, dict) for value in lists for row in value)


def _csv(file: Path) -> _Placed:
    return [(f"{file}:{line}", row) for line, row in csv_rows(file)]


def _parquet(file: Path) -> _Placed:
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
    return _listed(f"{file},", rows)


def _check_parquet_size(size: int, file: Path) -> None:
    """Refuse rows that would fill the memory; each value takes a byte or more."""
    if size > MAX_PARQUET_BYTES:
        what = f"its rows are above the limit of {MAX_PARQUET_BYTES >> 30} GB for a parquet file"
        raise DataError(what, where=str(file), hint="Cut it into several files.")
