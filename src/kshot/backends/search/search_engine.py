"""A search engine: settings from which an index over any corpus is made; the index then answers Search requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kshot.core.corpus import Corpus
from kshot.core.errors import BackendError
from kshot.core.protocols import Backend, IndexStore, RequestQueue
from kshot.core.records import Hit, Ranking, Request, Response, Search

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Found(NamedTuple):
    """Positions in the corpus, best first (equal scores: lower position first), with their scores."""

    positions: Sequence[int]
    scores: Sequence[float]


class Index(Protocol):
    """A corpus made searchable."""

    def search(self, queries: Sequence[str], k: int, among: Sequence[int] | None, /) -> list[Found]:
        """Find the ``k`` best passages for each query, among these positions (ascending) or all."""
        ...


class IndexSearchEngine(ABC):
    """What ``-m fts5`` names. ``fingerprint`` covers every setting that changes a ranking, not the corpus."""

    name: str
    fingerprint: str
    floor: float | None = None
    """The score of a passage that ``search`` leaves out though ``k`` had room for it; ``None``: it leaves out none."""
    batch: int = 256
    """How many queries are searched for before the first of them is answered: what a crash can cost."""

    @abstractmethod
    def open(self, corpus: Corpus, store: IndexStore, /) -> Index:
        """Make the corpus searchable, from the store's files if they are there already."""

    def over(self, corpus: Corpus, store: IndexStore) -> Backend:
        """Give the backend that searches this corpus; it opens the index when it is first asked."""
        return _CorpusSearch(self, corpus, store)

    def close(self) -> None:
        """Give memory back; most hold none beyond their index."""


def shown(**options: tuple[Any, Any]) -> str:
    """The options that differ from their defaults, as a spec has them: part of an engine's name."""
    return "".join(f",{name}={value}" for name, (value, default) in options.items() if value != default)


def corpus_fingerprint(fingerprint: str, corpus: Corpus) -> str:
    """The fingerprint of an engine at work on a corpus."""
    return f"{fingerprint} over {corpus.digest}"


class _CorpusSearch:
    """An engine at work on one corpus."""

    answers = (Search,)

    def __init__(self, engine: IndexSearchEngine, corpus: Corpus, store: IndexStore) -> None:
        self.name = engine.name
        self.fingerprint = corpus_fingerprint(engine.fingerprint, corpus)
        self._engine, self._corpus, self._store, self._batch = engine, corpus, store, engine.batch

    @cached_property
    def _index(self) -> Index:
        return self._engine.open(self._corpus, self._store)

    def serve(self, queue: RequestQueue) -> Iterator[tuple[Request, Response]]:
        while taken := queue.take():
            groups: dict[tuple[object, ...], list[Search]] = {}
            for request in taken:
                assert isinstance(request, Search)  # noqa: S101 - the engine asks only what ``answers`` lists
                groups.setdefault((request.k, request.where), []).append(request)
            for requests in groups.values():
                for start in range(0, len(requests), self._batch):
                    yield from self._answer(requests[start : start + self._batch])

    def _answer(self, requests: Sequence[Search]) -> Iterator[tuple[Request, Response]]:
        first, passages = requests[0], self._corpus.passages
        among = self._corpus.among(first.where)
        k = min(first.k, len(passages) if among is None else len(among))
        if k <= 0:
            yield from ((request, Ranking(())) for request in requests)
            return
        found = self._index.search([request.query for request in requests], k, among)
        if len(found) != len(requests):
            raise BackendError(f"it gave {len(found)} rankings for {len(requests)} queries", where=self.name)
        allowed = range(len(passages)) if among is None else frozenset(among)
        for request, (positions, scores) in zip(requests, found, strict=True):
            if len(positions) != len(scores):
                raise BackendError(f"it gave {len(positions)} positions with {len(scores)} scores", where=self.name)
            if (wrong := next((at for at in positions if at not in allowed), None)) is not None:
                raise BackendError(f"it gave position {wrong!r}, which it was not to search", where=self.name)
            pairs = zip(positions, scores, strict=True)
            yield request, Ranking(tuple(Hit(passages[at].id, float(score)) for at, score in pairs))


def best(scores: npt.NDArray[Any], k: int, positions: npt.NDArray[np.intp] | None = None) -> Found:
    """Pick the ``k`` highest of an array of scores, exactly: equal ones in the order of their positions.

    ``positions`` (ascending) says where the scores belong; by default the first score is the first passage's.
    """
    import numpy as np

    if k <= 0:
        return Found((), ())
    if len(scores) > k:
        border = np.partition(scores, len(scores) - k)[len(scores) - k]
        above = np.flatnonzero(scores > border)
        kept = np.concatenate((above, np.flatnonzero(scores == border)[: k - len(above)]))
        kept.sort()
    else:
        kept = np.arange(len(scores))
    kept = kept[np.argsort(-scores[kept], kind="stable")]
    where = kept if positions is None else positions[kept]
    return Found(where.tolist(), scores[kept].tolist())
