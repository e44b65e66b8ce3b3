"""What a loader reads with: files below the place of a dataset, each fault named with its file and line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, TypeAlias

from kshot.configs.rows import Splits, each_split
from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.core.text_files import check_regular, leaves_folder, lines_of, parse_json, read_whole
from kshot.tables.files import long_fields, read_file
from kshot.tables.hub import load_from_hub
from kshot.tables.loading import get_raw_dataset_loader

Change: TypeAlias = Callable[[Row], "Row | list[Row] | None"]
"""Makes the row that a loader gives, or several of them, from a row of its file; None drops it."""
ROW_FAULTS = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError)
"""What reading a row raises where it has not the form that a loader expects."""
_MAX_UNPACKED_BYTES = 4 << 30


class MissingFileError(DataError):
    """A file of the loader's layout that is not there."""


@dataclass(frozen=True)
class Loader:
    """How the rows of a dataset class are read.

    ``read`` reads the framework's own layout. ``change`` makes the row that it gives from a raw row, for raw rows that
    a user gives; ``is_raw`` tells them from final ones where the names of the columns do not. ``hub`` is a copy on the
    hub whose splits ``read`` takes too. ``package`` has a folder ``data`` that is read if the config names no path.
    """

    read: Callable[[DataPlace], Splits]
    change: Change | None = None
    is_raw: Callable[[Row], bool] | None = None
    hub: str = ""
    package: str = ""

    def rows(self, place: DataPlace) -> Splits:
        """Read the rows; whatever in a file has not the form that ``read`` expects is an error that names the file."""
        last = [place.hub or str(place.root)]

        def check(path: Path) -> object:
            last[0] = str(path)
            return place.check(path)

        try:
            return each_split(self.read(replace(place, check=check)), lambda rows: uniform(rows, last[0]))
        except KeyError as exc:
            raise DataError(f"its rows cannot be read: there is no {exc.args[0]!r}", where=last[0]) from exc
        except ROW_FAULTS as exc:
            raise DataError(f"its rows cannot be read: {exc}", where=last[0]) from exc


@dataclass(frozen=True)
class DataPlace:
    """The file or folder of a dataset, and the options of the config's entry.

    ``needed`` names the splits that the entry reads, and whether each must exist. ``check`` is called with every file
    that is read, and raises for what may not be. ``hub`` is a dataset on the hub, if there is no such folder.
    """

    root: Path
    options: Mapping[str, Any]
    needed: Mapping[str, bool]
    where: str
    check: Callable[[Path], object]
    framework: str = ""
    hub: str = ""

    # ---- options ----

    def text(self, name: str, default: str | None = None) -> str:
        """Return an option that is text."""
        value = self.options.get(name, default)
        if not isinstance(value, str):
            raise DataError(f"its {name} is {value!r:.80}; it must be text", where=self.where)
        return value

    def only(self, name: str, value: str) -> None:
        """Refuse an option with another value than the only one that the framework has rows for."""
        if (given := self.text(name, value)) != value:
            raise DataError(f"its {name} is {given!r:.60}", where=self.where, hint=f"It can only be {value!r}.")

    def number(self, name: str, default: int) -> int:
        """Return an option that is a whole number."""
        value = self.options.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise DataError(f"its {name} is {value!r:.80}; it must be a whole number", where=self.where)
        return value

    # ---- files ----

    def file(self, *parts: str) -> Path:
        """Return a file below the root; it must exist, and no part may leave the folder."""
        for part in parts:
            if leaves_folder(part):
                what = f"the name {part!r} would leave this folder"
                raise DataError(what, where=str(self.root), hint="Give a name without '..'.")
        path = self.root.joinpath(*parts)
        if not os.path.isfile(path):  # noqa: PTH113 - pathlib raises for names that are too long
            raise MissingFileError("there is no such file", where=str(path))
        self.check(path)
        return path

    def only_file(self, *names: str) -> Path:
        """Return the root if it is a file; in a folder, the file that the config's path names, or one of these."""
        if self.root.is_file():
            return self.file()
        path = self.options.get("path")
        listed = [Path(path).name, *names] if isinstance(path, str) else list(names)
        found = next((name for name in listed if name and (self.root / name).is_file()), listed[-1] if listed else "")
        return self.file(found)

    def json_lines(self, path: Path, change: Change | None = None, *, limit: int | None = None) -> list[Row]:
        """Read one JSON object from each line; ``limit`` lines at most."""
        rows: list[Row] = []
        size = 0
        with _open_text(path) as lines:
            for number, line in enumerate(lines_of(lines, path), start=1):
                size += len(line)
                if limit is not None and number > limit:
                    break
                if size > _MAX_UNPACKED_BYTES and path.suffix == ".gz":  # a small file can hold one line for ever
                    raise DataError(f"it holds more than {_MAX_UNPACKED_BYTES >> 30} GB of text", where=str(path))
                if line.strip():
                    rows += changed([_object(line, f"{path}:{number}")], change, f"{path}:{number}")
        return rows

    def json(self, path: Path) -> Any:
        """Read one JSON value."""
        with _named_faults(path):
            text = read_whole(path).decode("utf-8-sig")
        try:
            return parse_json(text)
        except json.JSONDecodeError as exc:
            raise DataError(f"this is not JSON: {exc.msg}", where=f"{path}:{exc.lineno}") from exc
        except ValueError as exc:
            raise DataError(f"its JSON cannot be read: {exc}", where=str(path)) from exc

    def listed_rows(self, *names: str, change: Change | None = None) -> list[Row]:
        """Read a JSON file that holds a list of rows; the root itself if there is no name."""
        path = self.file(*names) if names else self.only_file()
        found = self.json(path)
        if not isinstance(found, list) or not all(isinstance(row, Mapping) for row in found):
            raise DataError("it must hold a list of rows", where=str(path))
        return [row for number, raw in enumerate(found) for row in changed([raw], change, f"{path}, row {number}")]

    def rows_under(self, key: str, path: Path, what: str = "rows") -> list[Row]:
        """Read a JSON file that holds a list of rows under a key; ``what`` the rows are, for messages."""
        found = self.json(path)
        rows = found.get(key) if isinstance(found, Mapping) else None
        if not isinstance(rows, list):
            raise DataError(f"it has no list of {what} under {key!r}", where=str(path))
        return rows

    def named_rows(self, path: Path, change: Change, what: str) -> list[Row]:
        """Read a JSON file that holds an object: a row (``what`` it is, for messages) under each name."""
        found = self.json(path)
        if not isinstance(found, Mapping):
            raise DataError(f"it must hold an object: {what} under each name", where=str(path))
        return [row for name, raw in found.items() for row in changed([raw], change, f"{path}, {name!r}")]

    def csv(self, path: Path, width: int | None = None, delimiter: str = ",") -> Iterator[tuple[str, list[str]]]:
        """Yield the fields of each line that has some, and where it is; ``width``: how many there must be."""
        with _open_text(path) as lines, long_fields():
            reader = csv.reader(lines_of(lines, path), delimiter=delimiter)
            try:
                for fields in reader:
                    where = f"{path}:{reader.line_num}"
                    if fields and width is not None and len(fields) != width:
                        raise DataError(f"this row has {len(fields)} fields instead of {width}", where=where)
                    if fields:
                        yield where, fields
            except csv.Error as exc:
                raise DataError(f"this line is not CSV: {exc}", where=f"{path}:{reader.line_num}") from exc

    def table(self, path: Path) -> list[Row] | None:
        """Read the rows of a CSV file whose first line names the columns; None where it has no line."""
        lines = self.csv(path)
        header = next((fields for _, fields in lines), None)
        return None if header is None else [dict(zip(header, fields, strict=False)) for _, fields in lines]

    def lines(self, path: Path) -> list[str]:
        """Read the lines of a text, without white space around them."""
        with _open_text(path) as lines:
            return [line.strip() for line in lines_of(lines, path)]

    # ---- splits ----

    def repeated(self, rows: Iterable[Row]) -> list[Row]:
        """Return each row as often as the option ``num_repeats`` says."""
        return [row for row in rows for _ in range(self.number("num_repeats", 1))]

    def splits(self, names: Iterable[str], read: Callable[[str], Sequence[Row]]) -> dict[str, Sequence[Row]]:
        """Read the splits that the entry needs; one that it can do without may be missing."""
        listed = list(names)
        found: dict[str, Sequence[Row]] = {}
        for name in [name for name in listed if name in self.needed] or listed:
            try:
                found[name] = read(name)
            except MissingFileError:  # noqa: PERF203 - each split may be missing
                if self.needed.get(name, True):
                    raise
        return found

    def hub_split(self, split: str, subset: str | None = None) -> list[Row]:
        """Read a split of a dataset on the hub, or of a folder that is a copy of one."""
        if self.hub:
            try:
                return list(load_from_hub(self.hub, subset, split, self.where))
            except DataError as exc:
                raise MissingFileError(exc.what, where=exc.where, hint=exc.hint) from exc
        if self.root.is_file():
            read = read_file(self.file())
            return [*(read if isinstance(read, list) else read.get(split, ()))]
        try:
            return list(get_raw_dataset_loader("", self.root, subset, check=self.check)(split))
        except DataError as exc:
            raise MissingFileError(exc.what, where=exc.where, hint=exc.hint) from exc


def changed(rows: Iterable[Row], change: Change | None, where: str) -> list[Row]:
    """Return the rows that a function makes; a row that it cannot read is an error that names the column."""
    listed = list(rows)
    if change is None:
        return listed
    made: list[Row] = []
    for number, row in enumerate(listed):
        place = f"{where}, row {number}" if len(listed) > 1 else where
        try:
            new = change(row)
        except KeyError as exc:
            raise DataError(f"this row has no {exc.args[0]!r}", where=place) from exc
        except ROW_FAULTS as exc:
            raise DataError(f"this row cannot be read: {exc}", where=place) from exc
        made += new if isinstance(new, list) else [] if new is None else [new]
    return made


def without(row: Row, *names: str) -> dict[str, Any]:
    """Return a row without some of its columns."""
    return {name: value for name, value in row.items() if name not in names}


def known(table: Mapping[str, Any], value: object, column: str) -> Any:
    """Return what a table has for the value of a column; a value that it does not have is an error."""
    if value not in table:
        raise ValueError(f"its {column} is {value!r:.60}, not one of {', '.join(table)}")
    return table[str(value)]


def uniform(rows: Sequence[Any], where: str) -> list[Row]:
    """Give every row all columns, None where it has none, as the frameworks' tables do."""
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            what = f"a row must be an object with named fields, not {type(row).__name__}"
            raise DataError(what, where=f"{where}, row {number}")
    columns = dict.fromkeys(name for row in rows for name in row)
    return [row if len(row) == len(columns) else {**dict.fromkeys(columns), **row} for row in rows]


def one_file(change: Change | None = None, *names: str, is_raw: Callable[[Row], bool] | None = None) -> Loader:
    """Return a loader of one file of JSON lines; in a folder it is the one of these names."""
    return Loader(lambda place: place.json_lines(place.only_file(*names), change), change, is_raw)


def split_files(change: Change | None = None, **files: str) -> Loader:
    """Return a loader that reads each split from its own file of JSON lines."""

    def read(place: DataPlace) -> Splits:
        return place.splits(files, lambda split: place.json_lines(place.file(files[split]), change))

    return Loader(read, change)


def columns(**names: str) -> Change:
    """Return the change that makes rows with these columns from others: ``columns(new="old")``."""
    return lambda row: {new: row[old] for new, old in names.items()}


def zipped_text(path: Path, member: str) -> str:
    """Return a text of a zip archive."""
    with _named_faults(path):
        check_regular(path)
        try:
            with zipfile.ZipFile(path) as archive:
                if archive.getinfo(member).file_size > _MAX_UNPACKED_BYTES:
                    raise DataError(f"its file {member} is too large", where=str(path))
                return archive.read(member).decode("utf-8-sig")
        except KeyError as exc:
            raise MissingFileError(f"it has no file {member}", where=str(path)) from exc
        except zipfile.BadZipFile as exc:
            raise DataError(f"this is not a zip archive: {exc}", where=str(path)) from exc


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = parse_json(line)
    except ValueError as exc:
        reason = exc.msg if isinstance(exc, json.JSONDecodeError) else exc
        raise DataError(f"this line is not JSON: {reason}", where=where) from exc
    if not isinstance(row, dict):
        raise DataError(f"a row must be an object with named fields, not {type(row).__name__}", where=where)
    return row


@contextmanager
def _open_text(path: Path) -> Iterator[IO[str]]:
    with _named_faults(path):
        check_regular(path)
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as raw:
            yield io.TextIOWrapper(raw, encoding="utf-8-sig")


@contextmanager
def _named_faults(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError) as exc:  # a gzip file that is cut off is an EOFError
        raise DataError(f"the file cannot be read: {getattr(exc, 'strerror', None) or exc}", where=str(path)) from exc
    except UnicodeDecodeError as exc:
        raise DataError(f"the file is not UTF-8 text (byte {exc.start})", where=str(path)) from exc


# ---- values of CSV columns ----

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
