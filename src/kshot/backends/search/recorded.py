"""Recorded runs as a search engine: TREC run files, and JSON with lists of passage numbers."""

from __future__ import annotations

import hashlib
import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from kshot.backends.search.search_engine import Index, IndexSearchEngine
from kshot.core.corpus import Corpus, corpus_fingerprint, trec_word
from kshot.core.errors import BackendError, DataError, UsageError
from kshot.core.protocols import Backend, IndexStore, RequestQueue
from kshot.core.records import Failed, Hit, Ranking, Request, Response, Search
from kshot.core.text_files import MAX_WHOLE_BYTES, lines_of, parse_json, read_whole, regular_file

_TREC_LINE = re.compile(rb"\s*\S+\s+Q0\s+\S+\s+\S+\s+\S+(\s+\S+)?\s*", re.IGNORECASE)
_TREC_FIELDS = (5, 6)
_MAX_NAMED = 3
"""Questions that a note names."""


class RecordedSearchEngine(IndexSearchEngine):
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
            self.runs: Mapping[str, Sequence[_TrecLine]] = _trec_lines(raw, path)
        else:
            self.system, self.lists = _system(raw, path, system)
            self.fingerprint += f" {self.system}"

    def open(self, corpus: Corpus, store: IndexStore) -> Index:  # noqa: ARG002 - the base class has these arguments
        """Refuse: a recording has rankings by the ids of questions, not by their words."""
        raise BackendError(
            "a recorded run has rankings only for its own questions, and cannot be part of another search engine",
            where=self.name,
        )

    def over(self, corpus: Corpus, store: IndexStore) -> Backend:  # noqa: ARG002 - nothing is built
        """Return the backend that looks rankings up."""
        return _TrecBackend(self, corpus) if self._trec else _ListBackend(self, corpus)


def is_recorded_run(spec: str | Path) -> bool:
    """Whether ``replay:SPEC`` names such a file rather than a journal or recorded prompts."""
    path, _ = _split(str(spec))
    try:
        with open(path, "rb", opener=regular_file) as file:
            first = next((line for line in lines_of(file, path) if line.strip()), b"")
            if _TREC_LINE.fullmatch(first):
                return True
            if not first.lstrip().startswith(b"{"):
                return False
            body = _json_object(first)
            if not body and os.fstat(file.fileno()).st_size > MAX_WHOLE_BYTES:
                return False
            more = file.readline() if body else file.read()  # a journal has one JSON object on each line
            body = _json_object(first + more)
    except OSError:
        return False
    return bool(body) and all(isinstance(entry, dict) and "runs" in entry for entry in (body or {}).values())


# ---- reading ----


class _TrecLine(NamedTuple):
    """One line of a TREC run; ``number`` is its own number in the file."""

    score: float
    passage: str
    number: int


def _split(spec: str) -> tuple[Path, str]:
    """Return the file and the system; a ``#`` in the name of an existing file belongs to the name."""
    whole = Path(spec).expanduser()
    if "#" in spec and not whole.exists():
        path, _, system = spec.rpartition("#")
        return Path(path).expanduser(), system
    return whole, ""


def _read(path: Path) -> bytes:
    try:
        return read_whole(path)
    except OSError as exc:
        raise BackendError(f"the recorded run cannot be read: {exc.strerror or exc}", where=str(path)) from exc


def _json_object(raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object in the bytes: empty if they only begin as JSON, None if they do not."""
    # A topic may begin with a bracket too.
    if not raw.lstrip().startswith((b"{", b"[")) or _TREC_LINE.fullmatch(raw.lstrip().partition(b"\n")[0]):
        return None
    try:
        body = parse_json(raw)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _system(raw: bytes, path: Path, system: str) -> tuple[str, list[list[int]]]:
    body = _json_object(raw)
    if not body:
        raise DataError(
            "the file begins as JSON but is not a JSON object of systems", where=str(path), hint=_JSON_SHAPE
        )
    known = [name for name, entry in body.items() if isinstance(entry, dict) and "runs" in entry]
    if not known:
        raise DataError("this is not a recorded run", where=str(path), hint=_JSON_SHAPE)
    if not system and len(known) > 1:
        hint = f"Add one of: #{', #'.join(known)}."
        raise UsageError(f"the file holds {len(known)} systems", where=str(path), hint=hint)
    if system and system not in known:
        raise UsageError(f"the file holds no system {system!r}", where=str(path), hint=f"It has: {', '.join(known)}.")
    name = system or known[0]
    lists = body[name]["runs"]
    if not isinstance(lists, list):
        raise DataError("'runs' is not a list", where=f"{path}#{name}")
    for row, numbers in enumerate(lists, start=1):
        if not isinstance(numbers, list) or any(type(n) is not int or n < 0 for n in numbers):
            raise DataError("this is not a list of passage numbers", where=f"{path}#{name}, question {row}")
        if len(set(numbers)) < len(numbers):
            raise DataError("the list names a passage twice", where=f"{path}#{name}, question {row}")
    return name, lists


def _trec_lines(raw: bytes, path: Path) -> dict[str, list[_TrecLine]]:
    runs: dict[str, dict[str, _TrecLine]] = {}
    for number, line in enumerate(raw.decode("utf-8", "surrogateescape").split("\n"), start=1):
        parts = line.split()
        if not parts:
            continue
        where = f"{path}:{number}"
        if len(parts) not in _TREC_FIELDS:
            raise DataError(f"this is not a line of a TREC run: {line[:60]!r}", where=where, hint=_TREC_SHAPE)
        topic, _, passage, _, score = parts[:5]
        try:
            value = float(score)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            raise DataError(f"the score {score!r} is not a number", where=where, hint=_TREC_SHAPE)
        run = runs.setdefault(topic, {})
        if passage in run:
            raise DataError(
                f"topic {topic} already has the passage {passage!r} in line {run[passage].number}", where=where
            )
        run[passage] = _TrecLine(value, passage, number)
    if not runs:
        raise DataError("the recorded run is empty", where=str(path), hint=_TREC_SHAPE)
    return {
        topic: sorted(
            run.values(), key=lambda line: (line.score, line.passage.encode("utf-8", "surrogateescape")), reverse=True
        )
        for topic, run in runs.items()
    }


_JSON_SHAPE = 'It needs {"SYSTEM": {"runs": [[…], …]}}, or TREC lines.'
_TREC_SHAPE = "A line is: topic Q0 passage rank score tag."


# ---- answering ----


class _RecordedBackend(ABC):
    """What the backends of both kinds of recording share."""

    answers = (Search,)

    def __init__(self, recorded: RecordedSearchEngine, corpus: Corpus) -> None:
        self.name = recorded.name
        self.fingerprint = corpus_fingerprint(recorded.fingerprint, corpus)
        self._path, self._corpus = recorded.path, corpus
        self._where = str(recorded.path)

    def serve(self, queue: RequestQueue) -> Iterator[tuple[Request, Response]]:
        for request in queue:
            assert isinstance(request, Search)  # noqa: S101 - the engine sends only what ``answers`` lists
            yield request, self._answer(request)

    def notes_on(self, topics: Sequence[str]) -> list[str]:
        """Refuse questions of which none has a ranking; else say how many have none, and which topics are unknown."""
        ranked = self._ranked_topics()
        missing = [topic for topic in topics if topic not in ranked]
        if topics and len(missing) == len(topics):
            raise DataError(
                f"it has no ranking for any of the {len(topics)} questions that are asked: the first is {topics[0]!r}, "
                f"{f'while it has {next(iter(ranked))!r}' if ranked else 'and it is empty'}",
                where=self._where,
                hint="Name the run of this benchmark; rankings are found by the ids of questions.",
            )
        notes = []
        if missing:
            notes.append(
                f"it has no ranking for {len(missing)} of {len(topics)} questions, {_some(missing)}: they count as 0"
            )
        known = {*self._corpus.topics, *topics}
        if unknown := [topic for topic in ranked if topic not in known]:
            notes.append(f"{len(unknown)} of its topics are no questions here, {_some(unknown)}: they are left out")
        return notes

    @abstractmethod
    def _ranked_topics(self) -> Collection[str]:
        """Return the ids of the questions that have a ranking which is not empty."""

    @abstractmethod
    def _answer(self, request: Search) -> Response: ...


def _some(topics: Sequence[str]) -> str:
    return f"such as {', '.join(topics[:_MAX_NAMED])}"


class _ListBackend(_RecordedBackend):
    def __init__(self, recorded: RecordedSearchEngine, corpus: Corpus) -> None:
        super().__init__(recorded, corpus)
        self._where = f"{recorded.path}#{recorded.system}"
        if len(recorded.lists) != len(corpus.topics):
            raise DataError(
                f"it has {len(recorded.lists)} lists, and there are {len(corpus.topics)} questions",
                where=self._where,
                hint="It needs one list for each question, in the order of the questions.",
            )
        self._lists = {topic: (row, recorded.lists[row]) for row, topic in enumerate(corpus.topics)}

    def _ranked_topics(self) -> Collection[str]:
        return [topic for topic, (_, numbers) in self._lists.items() if numbers]

    def _answer(self, request: Search) -> Response:
        if request.topic not in self._lists:
            return Failed("not_recorded", f"{self._where} holds no ranking for question {request.topic!r}")
        row, numbers = self._lists[request.topic]
        among = self._corpus.among(request.where)
        searched = len(self._corpus) if among is None else len(among)
        hits = []
        for rank, number in enumerate(numbers[: request.k], start=1):
            if number >= searched:
                raise DataError(
                    f"it names passage {number}, and there are {searched} to search",
                    where=f"{self._where}, question {row + 1} ({request.topic})",
                    hint="Cut the documents into the same passages as for this run.",
                )
            at = number if among is None else among[number]
            hits.append(Hit(self._corpus.passages[at].id, 1 / rank))
        return Ranking(tuple(hits))


class _TrecBackend(_RecordedBackend):
    def __init__(self, recorded: RecordedSearchEngine, corpus: Corpus) -> None:
        super().__init__(recorded, corpus)
        self._runs = recorded.runs
        topics = [topic for topic in corpus.topics if topic in recorded.runs]
        if corpus.topics and not topics:
            example = f"{next(iter(recorded.runs))!r}, while a question here is {corpus.topics[0]!r}"
            raise DataError(f"none of its topics is a question here: one is {example}", where=str(recorded.path))
        for topic in topics:
            for _, passage, line in recorded.runs[topic]:
                if passage not in corpus:
                    raise DataError(f"there is no passage {passage!r}", where=f"{recorded.path}:{line}")

    def _ranked_topics(self) -> Collection[str]:
        return self._runs.keys()

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

    Scores are written as float32, which is what trec_eval reads, and each is below the one before it: a program that
    sorts by score gets the same order.
    """
    for text, what in ((topic, "topic"), (tag, "tag"), *((hit.id, "passage") for hit in ranking.hits)):
        trec_word(text, what)
    for hit in ranking.hits:
        if not math.isfinite(hit.score):
            raise DataError(f"the score of passage {hit.id!r} is {hit.score}", where=f"topic {topic}")
    falling = _falling([hit.score for hit in ranking.hits])
    lines = [
        f"{topic} Q0 {hit.id} {rank} {score} {tag}\n"
        for rank, (hit, score) in enumerate(zip(ranking.hits, falling, strict=True), start=1)
    ]
    if isinstance(file, (str, Path)):
        with Path(file).open("a", encoding="utf-8") as opened:
            opened.writelines(lines)
    else:
        file.writelines(lines)


def _falling(scores: Sequence[float]) -> list[str]:
    """Write scores, best first, as float32, each below the one before it; by rank if float32 has no room for that."""
    import numpy as np

    low, high = float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)
    last, written = np.float32(np.inf), []
    with np.errstate(over="ignore"):
        for score in scores:
            last = np.minimum(np.float32(min(max(score, low), high)), np.nextafter(last, np.float32(-np.inf)))
            written.append(str(last))
    return written if np.isfinite(last) or not written else [str(-rank) for rank in range(1, len(scores) + 1)]
