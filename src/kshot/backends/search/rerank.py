"""Reranking: a cross-encoder reads the query together with each of the first passages (``rerank``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from kshot.backends.search.search_engine import Index, IndexSearchEngine, changed_options
from kshot.backends.texts import replace_surrogates
from kshot.core.corpus import Corpus
from kshot.core.errors import UsageError
from kshot.core.protocols import IndexStore
from kshot.index import encoders
from kshot.index.model_folders import find_model, model_digest, require_kind
from kshot.index.ranking import Found
from kshot.index.windows import TokenSpans, check_window_options, tokenised, window_room, windows

_PURPOSE = "reranking with a cross-encoder"
_CACHED_TEXTS = 4096
DEFAULT_DEPTH = 50


class Rerank(IndexSearchEngine):
    """A cross-encoder's order of the first ``depth`` passages that another search engine finds; the others follow.

    The score is the model's, before any sigmoid. A passage too long to be read with the query is cut into windows,
    half overlapping, and has the best score of one; a query is cut at half the model's length. Scores of the passages
    after ``depth`` are those of the other search engine, all shifted by the same amount, so that the first of them is 1
    below the last reranked one.
    """

    def __init__(
        self,
        model: str,
        search_engine: IndexSearchEngine,
        *,
        depth: int = DEFAULT_DEPTH,
        batch_size: int = 32,
        device: str | None = None,
    ) -> None:
        check_window_options(None, None, batch_size)
        if depth < 1:
            raise UsageError(f"depth is {depth}", hint="Use 1 or more.")
        folder = find_model(model, _PURPOSE)
        require_kind(folder, model, "cross-encoder")
        self.name = f"rerank:{model}{changed_options(depth=(depth, DEFAULT_DEPTH))}@{search_engine.name}"
        self.fingerprint = f"rerank {model_digest(folder)} depth={depth} of ({search_engine.fingerprint})"
        # No floor, though the first search engine may leave passages out: the model has not read these, so none of its
        # scores says how they compare with the others.
        self.depth = depth
        self._search_engine = search_engine
        self._reader = _PassageReader(folder, batch_size, device)

    def open(self, corpus: Corpus, store: IndexStore, /) -> _RerankIndex:
        """Open the first search engine; the cross-encoder is loaded for the first query."""
        return _RerankIndex(self._search_engine.open(corpus, store), self._reader, corpus, self.depth)


class _RerankIndex:
    """The passages that the first search engine finds, reranked."""

    def __init__(self, index: Index, reader: _PassageReader, corpus: Corpus, depth: int) -> None:
        self._index, self._reader, self._depth = index, reader, depth
        self._texts = [replace_surrogates(passage.text) for passage in corpus]

    def search(self, queries: Sequence[str], k: int, among: Sequence[int] | None, /) -> list[Found]:
        searched = len(self._texts) if among is None else len(among)
        first = self._index.search(queries, min(max(k, self._depth), searched), among)
        return [
            self._reranked(replace_surrogates(query), found, k) for query, found in zip(queries, first, strict=True)
        ]

    def _reranked(self, query: str, found: Found, k: int) -> Found:
        positions, scores = list(found.positions), list(found.scores)
        head, tail = positions[: self._depth], positions[self._depth :]
        fresh = self._reader.scores(query, [self._texts[at] for at in head])
        order = sorted(range(len(head)), key=lambda at: (-fresh[at], head[at]))
        ranked, values = [head[at] for at in order], [fresh[at] for at in order]
        if tail:
            shift = values[-1] - 1 - scores[self._depth]
            ranked += tail
            values += [score + shift for score in scores[self._depth :]]
        return Found(ranked[:k], values[:k])


class _PassageReader:
    """A cross-encoder that reads passages of any length, window by window."""

    def __init__(self, folder: Path, batch_size: int, device: str | None) -> None:
        self._encoder, self._batch_size = encoders.PairEncoder(folder, device), batch_size
        self._tokens = lru_cache(maxsize=_CACHED_TEXTS)(self._tokenised)

    def _tokenised(self, text: str) -> TokenSpans:
        return next(tokenised(self._encoder.tokenizer, [text]))[1]

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the score of each text for this query: that of its best window."""
        encoder = self._encoder
        own = self._tokens(query)
        half = max((encoder.max_tokens - encoder.extra_tokens) // 2, 1)
        if len(own.ids) > half:
            query = query[: own.ends[half - 1]]
        beside = encoder.extra_tokens + min(len(own.ids), half)
        room = window_room(None, encoder.max_tokens, beside, str(encoder.folder))
        best = [-np.inf] * len(texts)
        pieces: list[tuple[int, str]] = []

        def read() -> None:
            values = encoder.scores([(query, piece) for _, piece in pieces], self._batch_size)
            for (at, _), value in zip(pieces, values, strict=True):
                best[at] = max(best[at], value)
            pieces.clear()

        for at, text in enumerate(texts):
            for window in windows(text, self._tokens(text), room, (room + 1) // 2):
                pieces.append((at, text[window.begin : window.end]))
                if len(pieces) == encoders.BATCHES_AT_ONCE * self._batch_size:
                    read()
        if pieces:
            read()
        return best
