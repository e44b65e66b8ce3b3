"""Search by one vector: the passages whose vectors have the highest cosine with the query's (``dense:MODEL``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kshot.backends.search.search_engine import IndexSearchEngine, changed_options
from kshot.backends.texts import replace_surrogates
from kshot.core.corpus import Corpus
from kshot.core.protocols import IndexStore
from kshot.index import encoders
from kshot.index.arrays import Array
from kshot.index.model_folders import MINILM, find_model, model_digest, require_kind
from kshot.index.ranking import Found
from kshot.index.vectors import RowFile, open_vectors
from kshot.index.windows import check_window_options, cut, tokenised, window_room, window_stride

_FORMAT = 1
_PURPOSE = "searching by sentence vectors"


class Dense(IndexSearchEngine):
    """A sentence-transformers model: ``minilm``, a folder, or a name on the hub.

    A passage longer than a window is cut into windows, and its score is the best cosine of one of them: the model does
    not read beyond its length, and one vector of a long text says little about each part of it. ``window`` counts
    tokens as the model does, special ones and prompt included; by default it is the model's length, and for MiniLM the
    128 tokens it was trained on. ``stride`` is the number of tokens from the beginning of a window to that of the next;
    by default half of what fits, so that any half window of text lies whole in one. A query is cut at the model's
    length. A text without a word has the zero vector: its cosine with anything is 0.

    Prompts go before the texts, as e5 and bge need them; by default those in the model's settings.
    """

    def __init__(
        self,
        model: str = MINILM,
        *,
        window: int | None = None,
        stride: int | None = None,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
        batch_size: int = 32,
        device: str | None = None,
    ) -> None:
        check_window_options(window, stride, batch_size)
        folder = find_model(model, _PURPOSE)
        require_kind(folder, model, "sentence encoder")
        self.name = f"dense:{model}" + changed_options(
            window=(window, None),
            stride=(stride, None),
            query_prompt=(query_prompt, None),
            passage_prompt=(passage_prompt, None),
        )
        if model.lower() == MINILM:
            window = window or encoders.MINILM_WINDOW
        self._model, self._window, self._stride, self._batch_size = model, window, stride, batch_size
        self._prompts = query_prompt, passage_prompt
        self._encoder = encoders.sentence_encoder(folder, device)
        self._digest = model_digest(folder)
        self.fingerprint = f"dense {self._digest} window={window} stride={stride} prompts={self._prompts!r}"

    def open(self, corpus: Corpus, store: IndexStore, /) -> _DenseIndex:
        """Encode the corpus, or open its vectors; the model is loaded only to encode, and for the first query."""
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
        size = window_room(self._window, encoder.max_tokens, encoder.extra_tokens(prompt), self._model)
        found = cut(encoder.tokenizer, texts, size, window_stride(self._stride, size, (size + 1) // 2))
        with RowFile(folder / "rows.npy", encoder.vectors(["a"], "passage", prompt, 1).shape[1]) as file:
            for part, pieces in found.batches(texts, encoders.BATCHES_AT_ONCE * self._batch_size):
                rows = encoder.vectors(pieces, "passage", prompt, self._batch_size)
                rows[found.tokens[part] == 0] = 0
                file.add(rows)
                store.progress(f"{self.name}: encoding", part.start + len(pieces), len(found.owners))
        np.save(folder / "starts.npy", found.starts)

    def encode_queries(self, queries: Sequence[str]) -> Array:
        """Return the vectors of queries."""
        encoder = self._encoder
        prompt = encoder.prompt("query", self._prompts[0])
        rows = encoder.vectors(queries, "query", prompt, self._batch_size)
        rows[[not len(tokens.ids) for _, tokens in tokenised(encoder.tokenizer, queries)]] = 0
        return rows


class _DenseIndex:
    """The vectors of windows on disk, and the search engine that encodes queries."""

    def __init__(self, search_engine: Dense, folder: Path) -> None:
        self._search_engine = search_engine
        self._vectors = open_vectors(folder)

    def search(self, queries: Sequence[str], k: int, among: Sequence[int] | None, /) -> list[Found]:
        rows = self._search_engine.encode_queries([replace_surrogates(query) for query in queries])
        return self._vectors.search(rows, k, among)
