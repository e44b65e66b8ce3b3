"""A search engine: settings from which an index over any corpus is made; the index then answers Search requests."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from kshot.core.corpus import Corpus, corpus_fingerprint
from kshot.core.errors import BackendError
from kshot.core.protocols import Backend, IndexStore, RequestQueue
from kshot.core.records import Hit, Ranking, Request, Response, Search

if TYPE_CHECKING:  # it brings numpy along, which naming a search engine does not need
    from kshot.index.ranking import Found


class Index(Protocol):
    """A corpus made searchable."""

    def search(self, queries: Sequence[str], k: int, among: Sequence[int] | None, /) -> list[Found]:
        """Find the ``k`` best passages for each query, among these positions (ascending) or all."""
        ...


class IndexSearchEngine(ABC):
    """The base class of search engines, built in or your own: ``open`` makes an index, which searches.

    ``name`` stands in tables and files. ``fingerprint`` covers every setting that changes a ranking, not the corpus.
    """

    name: str
    fingerprint: str
    floor: float | None = None
    """The score of a passage that ``search`` leaves out though ``k`` had room for it; ``None``: it leaves out none."""
    batch: int = 256
    """How many queries are searched before the first of them is answered: a crash loses at most these."""

    @abstractmethod
    def open(self, corpus: Corpus, store: IndexStore, /) -> Index:
        """Make the corpus searchable, from the store's files if they are there already."""

    def over(self, corpus: Corpus, store: IndexStore) -> Backend:
        """Return the backend that searches this corpus; it opens the index when it is first asked."""
        return _CorpusSearch(self, corpus, store)

    def close(self) -> None:  # noqa: B027 - a search engine may override it, and need not
        """Give memory back; most search engines hold none beyond their index."""


def changed_options(taken_by: Callable[..., Any], **options: Any) -> str:
    """Write the options that differ from the defaults of what takes them, as a spec has them."""
    declared = inspect.signature(taken_by).parameters
    return "".join(f",{name}={value}" for name, value in options.items() if value != declared[name].default)


def read_texts(
    corpus: Corpus, read: Callable[[str], Any], store: IndexStore, label: str, *, step: int = 10_000
) -> Iterator[Any]:
    """Yield each passage's text as ``read`` reads it, and report progress at every ``step`` of them."""
    for position, passage in enumerate(corpus.passages):
        if position % step == 0:
            store.progress(label, position, len(corpus))
        yield read(passage.text)
    store.progress(label, len(corpus), len(corpus))


class _CorpusSearch:
    """A search engine over one corpus, as a backend."""

    answers = (Search,)

    def __init__(self, search_engine: IndexSearchEngine, corpus: Corpus, store: IndexStore) -> None:
        self.name = search_engine.name
        self.fingerprint = corpus_fingerprint(search_engine.fingerprint, corpus)
        self._search_engine, self._corpus, self._store = search_engine, corpus, store

    @cached_property
    def _index(self) -> Index:
        return self._search_engine.open(self._corpus, self._store)

    def serve(self, queue: RequestQueue) -> Iterator[tuple[Request, Response]]:
        batch = self._search_engine.batch
        while taken := queue.take():
            groups: dict[tuple[object, ...], list[Search]] = {}
            for request in taken:
                assert isinstance(request, Search)  # noqa: S101 - the engine sends only what ``answers`` lists
                groups.setdefault((request.k, request.where), []).append(request)
            for requests in groups.values():
                for start in range(0, len(requests), batch):
                    yield from self._answer(requests[start : start + batch])

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
                raise BackendError(
                    f"it gave position {wrong!r}, which is not among the passages to search", where=self.name
                )
            pairs = zip(positions, scores, strict=True)
            yield request, Ranking(tuple(Hit(passages[at].id, float(score)) for at, score in pairs))
