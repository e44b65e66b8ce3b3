"""Rows of csv and tsv files: the delimiter is detected, and a fault is named by its line and its column."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from kshot.core.errors import DataError
from kshot.core.text_files import MAX_LINE_CHARACTERS, lines_of

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
