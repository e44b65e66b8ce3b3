"""Runs that others recorded, as an engine: TREC run files, and JSON with lists of passage numbers."""

from __future__ import annotations

import hashlib
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from kshot.backends.search.search_engine import Index, IndexSearchEngine, corpus_fingerprint
from kshot.core.corpus import Corpus
from kshot.core.errors import BackendError, DataError, UsageError
from kshot.core.protocols import Backend, IndexStore, RequestQueue
from kshot.core.records import Failed, Hit, Ranking, Request, Response, Search

_TREC = re.compile(rb"\s*\S+\s+Q0\s+\S+\s+\S+\s+\S+(\s+\S+)?\s*", re.IGNORECASE)
TREC_FIELDS = (5, 6)


class RecordedEngine(IndexSearchEngine):
    """Rankings from a file, named ``FILE`` or ``FILE#SYSTEM``.

    JSON: ``{SYSTEM: {"runs": [[passage numbers, best first], …]}}``, one list a question in the order of
    ``corpus.topics``; number n is the n-th passage among those that the request's ``where`` leaves. TREC: lines ``topic
    Q0 passage rank score tag``, ordered as trec_eval does: by score, equal ones by id, both descending.
    """

    def __init__(self, spec: str | Path) -> None:
        """Read the file and choose the system."""
        path, system = _split(str(spec))
        raw = _read(path).removeprefix(b"\xef\xbb\xbf")
        self.name = f"replay:{spec}"
        self.path = path
        self.fingerprint = f"recorded {hashlib.blake2b(raw, digest_size=16).hexdigest()}"
        self._trec = _json_object(raw) is None
        if self._trec:
            if system:
                raise UsageError(f"a TREC run file holds one system, so {system!r} cannot be chosen", where=str(path))
            self.runs: Mapping[str, Sequence[_Line]] = _trec_lines(raw, path)
        else:
            self.system, self.lists = _system(raw, path, system)
            self.fingerprint += f" {self.system}"

    def open(self, corpus: Corpus, store: IndexStore) -> Index:  # noqa: ARG002 - the contract's arguments
        """Refuse: a recording knows questions by their id, not by their words."""
        raise BackendError(
            "a recorded run answers the questions it was recorded for, and cannot be part of another engine",
            where=self.name,
        )

    def over(self, corpus: Corpus, store: IndexStore) -> Backend:  # noqa: ARG002 - nothing is built
        """Give the backend that looks rankings up; ``missing`` counts the questions that have none."""
        return _Trec(self, corpus) if self._trec else _Lists(self, corpus)


def is_recorded_run(spec: str | Path) -> bool:
    """Tell whether ``replay:SPEC`` names such a file rather than a journal or recorded prompts."""
    path, _ = _split(str(spec))
    try:
        with path.open("rb") as file:
            first = next((line for line in file if line.strip()), b"")
            if not first.lstrip().startswith(b"{"):
                return bool(_TREC.fullmatch(first))
            body = _json_object(first)
            rest = file.readline() if body else file.read()  # whole lines of JSON are a journal's
            body = _json_object(first + rest)
    except OSError:
        return False
    return bool(body) and all(isinstance(entry, dict) and "runs" in entry for entry in (body or {}).values())


# ---- reading ----


class _Line(NamedTuple):
    score: float
    passage: str
    number: int


def _split(spec: str) -> tuple[Path, str]:
    """File and system; a ``#`` that is part of an existing file's name belongs to it."""
    whole = Path(spec).expanduser()
    if "#" in spec and not whole.exists():
        path, _, system = spec.rpartition("#")
        return Path(path).expanduser(), system
    return whole, ""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise BackendError(f"the run cannot be read: {exc.strerror or exc}", where=str(path)) from exc


def _json_object(raw: bytes) -> dict[str, Any] | None:
    """The JSON object that the bytes are, if they are one."""
    if not raw.lstrip().startswith((b"{", b"[")):
        return None
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _system(raw: bytes, path: Path, system: str) -> tuple[str, list[list[int]]]:
    body = _json_object(raw)
    if not body:
        raise DataError("it begins as JSON, and is no JSON object with systems in it", where=str(path))
    known = [name for name, entry in body.items() if isinstance(entry, dict) and "runs" in entry]
    if not known:
        raise DataError(
            "this is no recorded run", where=str(path), hint='It needs {"SYSTEM": {"runs": [[…], …]}}, or TREC lines.'
        )
    if not system and len(known) > 1:
        raise UsageError(f"it holds {len(known)} systems", where=str(path), hint=f"Add one: #{', #'.join(known)}.")
    if system and system not in known:
        raise UsageError(f"it holds no system {system!r}", where=str(path), hint=f"It has: {', '.join(known)}.")
    name = system or known[0]
    lists = body[name]["runs"]
    if not isinstance(lists, list):
        raise DataError("'runs' is not a list", where=f"{path}#{name}")
    for row, numbers in enumerate(lists, start=1):
        if not isinstance(numbers, list) or any(type(n) is not int or n < 0 for n in numbers):
            raise DataError("this is not a list of passage numbers", where=f"{path}#{name}, question {row}")
        if len(set(numbers)) < len(numbers):
            raise DataError("a passage stands in it twice", where=f"{path}#{name}, question {row}")
    return name, lists


def _trec_lines(raw: bytes, path: Path) -> dict[str, list[_Line]]:
    runs: dict[str, dict[str, _Line]] = {}
    for number, line in enumerate(raw.decode("utf-8", "surrogateescape").split("\n"), start=1):
        parts = line.split()
        if not parts:
            continue
        where = f"{path}:{number}"
        if len(parts) not in TREC_FIELDS:
            raise DataError(f"this is no line of a TREC run: {line[:60]!r}", where=where, hint=_SHAPE)
        topic, _, passage, _, score = parts[:5]
        try:
            value = float(score)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            raise DataError(f"the score {score!r} is not a number", where=where, hint=_SHAPE)
        run = runs.setdefault(topic, {})
        if passage in run:
            raise DataError(
                f"topic {topic} has the passage {passage!r} already in line {run[passage].number}", where=where
            )
        run[passage] = _Line(value, passage, number)
    if not runs:
        raise DataError("the run is empty", where=str(path), hint=_SHAPE)
    return {topic: sorted(run.values(), key=_trec_order, reverse=True) for topic, run in runs.items()}


_SHAPE = "A line is: topic Q0 passage rank score tag."


def _trec_order(line: _Line) -> tuple[float, bytes]:
    return line.score, line.passage.encode("utf-8", "surrogateescape")


# ---- answering ----


class _Looking(ABC):
    """What both kinds of recording have in common."""

    answers = (Search,)
    missing = 0
    """How many of the corpus's questions the run has no ranking for."""

    def __init__(self, engine: RecordedEngine, corpus: Corpus) -> None:
        self.name = engine.name
        self.fingerprint = corpus_fingerprint(engine.fingerprint, corpus)
        self._path, self._corpus = engine.path, corpus

    def serve(self, waiting: RequestQueue) -> Iterator[tuple[Request, Response]]:
        for request in waiting:
            assert isinstance(request, Search)  # noqa: S101 - the engine asks only what ``answers`` lists
            yield request, self._answer(request)

    @abstractmethod
    def _answer(self, request: Search) -> Response: ...


class _Lists(_Looking):
    def __init__(self, engine: RecordedEngine, corpus: Corpus) -> None:
        super().__init__(engine, corpus)
        self._where = f"{engine.path}#{engine.system}"
        if len(engine.lists) != len(corpus.topics):
            raise DataError(
                f"it has {len(engine.lists)} lists, and there are {len(corpus.topics)} questions",
                where=self._where,
                hint="A list belongs to each question, in their order.",
            )
        self.missing = sum(not numbers for numbers in engine.lists)
        self._lists = {topic: (row, engine.lists[row]) for row, topic in enumerate(corpus.topics)}

    def _answer(self, request: Search) -> Response:
        if request.topic not in self._lists:
            return Failed("not_recorded", f"{self._where} holds no ranking for question {request.topic!r}")
        row, numbers = self._lists[request.topic]
        among = self._corpus.among(request.where)
        many = len(self._corpus) if among is None else len(among)
        hits = []
        for rank, number in enumerate(numbers[: request.k], start=1):
            if number >= many:
                raise DataError(
                    f"it names passage {number}, and there are {many} to search",
                    where=f"{self._where}, question {row + 1} ({request.topic})",
                    hint="The passages must be cut as they were for this run.",
                )
            at = number if among is None else among[number]
            hits.append(Hit(self._corpus.passages[at].id, 1 / rank))
        return Ranking(tuple(hits))


class _Trec(_Looking):
    def __init__(self, engine: RecordedEngine, corpus: Corpus) -> None:
        super().__init__(engine, corpus)
        self._runs = engine.runs
        topics = [topic for topic in corpus.topics if topic in engine.runs]
        if corpus.topics and not topics:
            example = f"{next(iter(engine.runs))!r}, while a question here is {corpus.topics[0]!r}"
            raise DataError(f"none of its topics is a question here: one is {example}", where=str(engine.path))
        self.missing = len(corpus.topics) - len(topics)
        for topic in topics:
            for _, passage, line in engine.runs[topic]:
                if passage not in corpus:
                    raise DataError(f"there is no passage {passage!r}", where=f"{engine.path}:{line}")

    def _answer(self, request: Search) -> Response:
        among = self._corpus.among(request.where)
        allowed = None if among is None else set(among)
        hits = []
        for score, passage, line in self._runs.get(request.topic, ()):
            if passage not in self._corpus:
                raise DataError(f"there is no passage {passage!r}", where=f"{self._path}:{line}")
            if allowed is None or self._corpus.position(passage) in allowed:
                hits.append(Hit(passage, score))
        return Ranking(tuple(hits[: request.k]))


# ---- writing ----


def write_trec(file: str | Path | IO[str], topic: str, ranking: Ranking, tag: str = "kshot") -> None:
    """Add one question's ranking to a TREC run: to an open file, or to the end of the file at a path.

    Scores are written as float32, which is what trec_eval reads, and each is below the one before it: whoever sorts
    them sees this order.
    """
    import numpy as np

    for text, what in ((topic, "topic"), (tag, "tag"), *((hit.id, "passage") for hit in ranking.hits)):
        if not text or text.split() != [text]:
            raise DataError(f"a TREC run cannot hold the {what} {text!r}", hint="It must be one word without spaces.")
    lines: list[str] = []
    low, high = float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)
    last = np.float32(np.inf)
    for rank, hit in enumerate(ranking.hits, start=1):
        if not math.isfinite(hit.score):
            raise DataError(f"the score of passage {hit.id!r} is {hit.score}", where=f"topic {topic}")
        last = np.minimum(np.float32(min(max(hit.score, low), high)), np.nextafter(last, np.float32(-np.inf)))
        lines.append(f"{topic} Q0 {hit.id} {rank} {last!s} {tag}\n")
    if isinstance(file, (str, Path)):
        with Path(file).open("a", encoding="utf-8") as opened:
            opened.writelines(lines)
    else:
        file.writelines(lines)
