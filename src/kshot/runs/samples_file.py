"""Reading ``samples.jsonl``, row by row or at known places, and the texts of the passages that searches found first."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from shlex import quote
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from kshot.core.corpus import Corpus
from kshot.core.errors import KshotError, RunError
from kshot.core.memo import Offsets
from kshot.core.records import ResultRow
from kshot.core.text_files import lines_of, parse_json, path_inside, regular_file

if TYPE_CHECKING:  # it imports this module
    from kshot.runs.folder import RunFolder

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


MOST_RANKS = 10
"""The passages of a sample whose texts are kept; those further below have their ids and scores in the row."""


def found_ids(row: ResultRow) -> list[str]:
    """Return the ids of the passages that a row found, best first."""
    parts = row.get("response")
    hits = [part for part in parts if isinstance(part, dict) and "score" in part] if isinstance(parts, list) else []
    return [hit["id"] for hit in hits if isinstance(hit.get("id"), str)]


@contextmanager
def keeping_passages(folder: RunFolder) -> Iterator[Callable[[Corpus, ResultRow], None]]:
    """Write the passages that rows found first, each once for each task; the file is in place when the block ends.

    A run that finds none gets no such file.
    """
    seen = Offsets()
    with ExitStack() as stack:
        file: IO[str] | None = None

        def keep(corpus: Corpus, row: ResultRow) -> None:
            nonlocal file
            for name in found_ids(row)[:MOST_RANKS]:
                mark = _mark(row["task"], name)
                if mark in seen or name not in corpus:
                    continue
                seen[mark] = 0
                file = file or stack.enter_context(folder.replacing(PASSAGES))
                line = {"task": row["task"], "id": name, "text": corpus[name].text}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

        yield keep


def _mark(task: str, passage: str) -> int:
    text = json.dumps([task, passage])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


class PassageTexts:
    """The texts of the passages of a run folder; the file is read once, then by its places. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        """Take a run folder; nothing is read yet."""
        self._folder = folder
        self._lock = threading.Lock()
        self._places: tuple[tuple[int, int], Offsets] | None = None

    def of(self, row: ResultRow) -> Mapping[str, str]:
        """Return the texts of the passages that a row found first, by id; those of early runs are not known."""
        names = found_ids(row)[:MOST_RANKS]
        return self._texts(str(row.get("task", "")), names) if names else {}

    def _texts(self, task: str, names: Sequence[str]) -> dict[str, str]:
        path = path_inside(self._folder, PASSAGES)
        found: dict[str, str] = {}
        try:
            with open(path, "rb", opener=regular_file) as lines:
                places = self._known_places(lines, path)
                for name in names:
                    place = places.get(_mark(task, name))
                    if place is None:
                        continue
                    lines.seek(place)
                    line = _passage(next(lines_of(lines, path), b""))
                    if line is not None and (line["task"], line["id"]) == (task, name):
                        found[name] = line["text"]
        except FileNotFoundError:
            return {}
        except OSError as exc:
            raise RunError(f"it cannot be read: {exc.strerror or exc}", where=str(path)) from exc
        return found

    def _known_places(self, lines: IO[bytes], path: Path) -> Offsets:
        found = os.fstat(lines.fileno())
        version = found.st_size, found.st_mtime_ns
        with self._lock:
            if self._places is None or self._places[0] != version:
                places, place = Offsets(), 0
                for line in lines_of(lines, path):
                    passage = _passage(line)
                    if passage is not None:
                        places[_mark(passage["task"], passage["id"])] = place
                    place += len(line)
                self._places = version, places
            return self._places[1]


def _passage(line: bytes) -> dict[str, Any] | None:
    """Read a line; None for one that kshot would not have written: its passage is then shown without its text."""
    try:
        found = parse_json(line.decode("utf-8", "surrogatepass"))
    except (ValueError, KshotError):
        return None
    parts = ("task", "id", "text")
    return found if isinstance(found, dict) and all(isinstance(found.get(part), str) for part in parts) else None
