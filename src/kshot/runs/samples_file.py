"""Reading ``samples.jsonl``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from kshot.core.errors import RunError
from kshot.core.records import ResultRow
from kshot.core.text_files import lines_of, parse_json, path_inside, regular_file

SAMPLES = "samples.jsonl"
PASSAGES = "passages.jsonl"
"""The texts of the passages that were found first."""
INDEX, WORDS = "samples.sqlite", "samples.words.sqlite"
"""What the viewer makes of the samples; both are made again when they are missing."""


class PlacedRow(NamedTuple):
    """A row, the byte at which its line begins, and its file and line for messages."""

    row: ResultRow
    place: int
    where: str


def read_samples(folder: Path) -> list[ResultRow]:
    """Return the rows of a run folder."""
    return list(sample_rows(folder))


def sample_rows(folder: Path) -> Iterator[ResultRow]:
    """Yield the rows of a run folder, as they are read."""
    return (placed.row for placed in placed_rows(folder))


def placed_rows(folder: Path) -> Iterator[PlacedRow]:
    """Yield the rows of a run folder with their places, as they are read."""
    path = path_inside(folder, SAMPLES)
    place = 0
    try:
        with open(path, "rb", opener=regular_file) as lines:
            for number, line in enumerate(lines_of(lines, path), start=1):
                where = f"{path}:{number}"
                yield PlacedRow(_row(line, where), place, where)
                place += len(line)
    except OSError as exc:
        raise _unreadable(path, exc) from exc


def rows_at(folder: Path, places: Iterable[int]) -> Iterator[ResultRow]:
    """Yield the rows that begin at these bytes of the file, in this order."""
    path = path_inside(folder, SAMPLES)
    try:
        with open(path, "rb", opener=regular_file) as lines:
            for place in places:
                lines.seek(place)
                yield _row(next(lines_of(lines, path), b""), f"{path}, byte {place}")
    except OSError as exc:
        raise _unreadable(path, exc) from exc


def _unreadable(path: Path, exc: OSError) -> RunError:
    return RunError(f"it cannot be read: {exc.strerror or exc}", where=str(path))


def _row(line: bytes, where: str) -> ResultRow:
    try:
        row = parse_json(line.decode("utf-8", "surrogatepass"))
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise damaged_line("this line is damaged", where)
    return row


def damaged_line(what: str, where: str) -> RunError:
    """Return the error of a line that kshot would not have written."""
    return RunError(what, where=where, hint="kshot score writes the file again from the journal.")


def made_earlier(run: str) -> RunError:
    """Return the error of a run whose samples cannot be paired with those of others."""
    what = "an earlier version of kshot made this run: its samples do not say which questions they are"
    return RunError(what, where=run, hint=f"This command adds it, without asking a model: kshot score {quote(run)}")
