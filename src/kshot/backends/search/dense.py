"""Search by one vector: passages and queries as points, the nearest by angle first (``dense:MODEL``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kshot.backends.search.search_engine import Found, IndexSearchEngine, shown
from kshot.backends.texts import replace_surrogates
from kshot.core.corpus import Corpus
from kshot.core.protocols import IndexStore
from kshot.index import encoders
from kshot.index.vectors import Array, RowFile, kept
from kshot.index.windows import cut, tokenised

_FORMAT = 1
_PURPOSE = "searching by sentence vectors"


class Dense(IndexSearchEngine):
    """A sentence-transformers model: ``minilm``, a folder, or a name on the hub.

    A passage longer than a window is cut into windows, and its score is the best cosine of one of them: what lies
    beyond the model's length would not be read, and one vector of a long text says little about each part of it.
    ``window`` counts tokens as the model does, special ones and prompt included; by default it is the model's length,
    and for MiniLM the 128 tokens it was trained on. ``stride`` is how many tokens after a window the next begins; by
    default half of what fits, so that any stretch of half a window lies whole in one. A query is cut at the model's
    length. A text without a word has the zero vector: its cosine with anything is 0.

    Prompts go before the texts, as e5 and bge want it; by default those in the model's settings.
    """

    def __init__(
        self,
        model: str = encoders.MINILM,
        *,
        window: int | None = None,
        stride: int | None = None,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
        batch_size: int = 32,
        device: str | None = None,
    ) -> None:
        encoders.checked(window, stride, batch_size)
        folder = encoders.located(model, _PURPOSE)
        encoders.expect(folder, model, "sentence encoder")
        self.name = f"dense:{model}" + shown(
            window=(window, None),
            stride=(stride, None),
            query_prompt=(query_prompt, None),
            passage_prompt=(passage_prompt, None),
        )
        if model.lower() == encoders.MINILM:
            window = window or encoders.MINILM_LENGTH
        self._model, self._window, self._stride, self._batch_size = model, window, stride, batch_size
        self._prompts = query_prompt, passage_prompt
        self._encoder = encoders.sentence_encoder(folder, device)
        self._digest = encoders.digest(folder)
        self.fingerprint = f"dense {self._digest} window={window} stride={stride} prompts={self._prompts!r}"

    def open(self, corpus: Corpus, store: IndexStore, /) -> _DenseIndex:
        """Encode the corpus, or find it encoded; the model is loaded only for that and for the first query."""
        key = {
            "format": _FORMAT,
            "model": self._digest,
            "window": self._window,
            "stride": self._stride,
            "prompt": self._prompts[1],
            "corpus": corpus.digest,
        }
        folder = store.built("dense", key, lambda fresh: self._build(corpus, store, fresh))
        return _DenseIndex(self, folder)

    def _build(self, corpus: Corpus, store: IndexStore, folder: Path) -> None:
        encoder, texts = self._encoder, [replace_surrogates(passage.text) for passage in corpus]
        prompt = encoder.prompt("passage", self._prompts[1])
        size = encoders.room(self._window, encoder.longest, encoder.beside(prompt), self._model)
        found = cut(encoder.tokenizer, texts, size, encoders.stride_of(self._stride, size, (size + 1) // 2))
        with RowFile(folder / "rows.npy", encoder.vectors(["a"], "passage", prompt, 1).shape[1]) as file:
            for part, pieces in found.batches(texts, encoders.BATCHES * self._batch_size):
                rows = encoder.vectors(pieces, "passage", prompt, self._batch_size)
                rows[found.tokens[part] == 0] = 0
                file.add(rows)
                store.progress(f"{self.name}: encoding", part.start + len(pieces), len(found.owners))
        np.save(folder / "starts.npy", found.starts)

    def encoded(self, queries: Sequence[str]) -> Array:
        """Give the vectors of queries."""
        encoder = self._encoder
        prompt = encoder.prompt("query", self._prompts[0])
        rows = encoder.vectors(queries, "query", prompt, self._batch_size)
        rows[[not len(tokens.ids) for _, tokens in tokenised(encoder.tokenizer, queries)]] = 0
        return rows


class _DenseIndex:
    """Window vectors on disk, and the engine that encodes queries."""

    def __init__(self, engine: Dense, folder: Path) -> None:
        self._engine = engine
        self._vectors = kept(folder)

    def search(self, queries: Sequence[str], k: int, among: Sequence[int] | None, /) -> list[Found]:
        return self._vectors.search(self._engine.encoded([replace_surrogates(query) for query in queries]), k, among)
