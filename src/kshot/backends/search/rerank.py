"""A second look: a cross-encoder reads the query and each of the first passages together (``rerank``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from kshot.backends.search.search_engine import Found, Index, IndexSearchEngine, shown
from kshot.backends.texts import replace_surrogates
from kshot.core.corpus import Corpus
from kshot.core.errors import BackendError, UsageError
from kshot.core.protocols import IndexStore
from kshot.index import encoders
from kshot.index.windows import Tokens, tokenised, windows

_PURPOSE = "reranking with a cross-encoder"
_KEPT = 4096
DEPTH = 50


class Rerank(IndexSearchEngine):
    """A cross-encoder's order of the first ``depth`` passages that another engine finds; the others follow.

    The score is the model's, before any sigmoid. A passage too long to be read with the query is cut into windows,
    half overlapping, and has the best score of one; a query is cut at half the model's length. Scores of the passages
    after ``depth`` are the engine's, all shifted alike so that the first of them is 1 below the last reranked one.
    """

    def __init__(
        self,
        model: str,
        engine: IndexSearchEngine,
        *,
        depth: int = DEPTH,
        batch_size: int = 32,
        device: str | None = None,
    ) -> None:
        encoders.checked(None, None, batch_size)
        if depth < 1:
            raise UsageError(f"depth is {depth}", hint="Use 1 or more.")
        folder = encoders.located(model, _PURPOSE)
        encoders.expect(folder, model, "cross-encoder")
        self.name = f"rerank:{model}{shown(depth=(depth, DEPTH))}@{engine.name}"
        self.fingerprint = f"rerank {encoders.digest(folder)} depth={depth} of ({engine.fingerprint})"
        # No floor, though the first engine may leave passages out: these were not read, so no score of this model
        # says how they stand to the others.
        self.depth = depth
        self._engine = engine
        self._reader = _Reader(folder, batch_size, device)

    def open(self, corpus: Corpus, store: IndexStore, /) -> _RerankIndex:
        """Open the first engine; the cross-encoder is loaded for the first query."""
        return _RerankIndex(self._engine.open(corpus, store), self._reader, corpus, self.depth)


class _RerankIndex:
    """What the first engine finds, read again."""

    def __init__(self, index: Index, reader: _Reader, corpus: Corpus, depth: int) -> None:
        self._index, self._reader, self._depth = index, reader, depth
        self._texts = [replace_surrogates(passage.text) for passage in corpus]

    def search(self, queries: Sequence[str], k: int, among: Sequence[int] | None, /) -> list[Found]:
        most = len(self._texts) if among is None else len(among)
        first = self._index.search(queries, min(max(k, self._depth), most), among)
        return [self._again(replace_surrogates(query), found, k) for query, found in zip(queries, first, strict=True)]

    def _again(self, query: str, found: Found, k: int) -> Found:
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


class _Reader:
    """A cross-encoder, loaded when first used."""

    def __init__(self, folder: Path, batch_size: int, device: str | None) -> None:
        self._folder, self._batch_size, self._device = folder, batch_size, device
        self._tokens = lru_cache(maxsize=_KEPT)(self._tokenised)

    @cached_property
    def _model(self) -> Any:
        from sentence_transformers import CrossEncoder

        model = encoders.loaded(self._folder, CrossEncoder, self._device)
        if model.num_labels != 1:
            what = f"gives {model.num_labels} scores a pair, not one"
            raise BackendError(what, where=str(self._folder), hint="Use a cross-encoder trained to rank.")
        return model

    @cached_property
    def _longest(self) -> int:
        model = self._model
        own = getattr(model, "max_seq_length", None) or model.max_length  # the second before sentence-transformers 6
        return encoders.longest(own, model.tokenizer, model.config)

    def _tokenised(self, text: str) -> Tokens:
        return next(tokenised(self._model.tokenizer, [text]))[1]

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """The score of each text, for this query: that of its best window."""
        import torch

        extra = self._model.tokenizer.num_special_tokens_to_add(pair=True)
        own = self._tokens(query)
        half = max((self._longest - extra) // 2, 1)
        if len(own.ids) > half:
            query = query[: own.ends[half - 1]]
        room = encoders.room(None, self._longest, extra + min(len(own.ids), half), str(self._folder))
        best = [-np.inf] * len(texts)
        waiting: list[tuple[int, str]] = []

        def read() -> None:
            pairs = [(query, piece) for _, piece in waiting]
            identity = torch.nn.Identity()
            found = self._model.predict(
                pairs, batch_size=self._batch_size, activation_fn=identity, show_progress_bar=False
            )
            values = encoders.sound(np.asarray(found, dtype=np.float64).reshape(-1), self._folder)
            for (at, _), value in zip(waiting, values.tolist(), strict=True):
                best[at] = max(best[at], value)
            waiting.clear()

        for at, text in enumerate(texts):
            for window in windows(text, self._tokens(text), room, (room + 1) // 2):
                waiting.append((at, text[window.begin : window.end]))
                if len(waiting) == encoders.BATCHES * self._batch_size:
                    read()
        if waiting:
            read()
        return best
