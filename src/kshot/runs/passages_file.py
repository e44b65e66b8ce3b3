"""``passages.jsonl``: the texts of the passages that search engines found first, for people who look at samples."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

from kshot.core.corpus import Corpus
from kshot.core.errors import KshotError, RunError
from kshot.core.memo import Offsets
from kshot.core.records import ResultRow
from kshot.core.text_files import lines_of, parse_json, path_inside, regular_file
from kshot.runs.folder import RunFolder
from kshot.runs.samples_file import PASSAGES

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
