"""Search by one vector: the passages whose vectors have the highest cosine with the query's (``dense:MODEL``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
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
from kshot.index.shards import Part, TextShards, shard_ranges
from kshot.index.vectors import open_vectors, write_vectors
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
        work = _EncodePassages(
            self._encoder, self._model, self._window, self._stride, self._prompts[1], self._batch_size
        )
        shards = shard_ranges(corpus, encoders.SHARD_PASSAGES, encoders.SHARD_CHARACTERS)
        index = TextShards(f"{self.name}: encoding, shards", work, corpus, shards, write_vectors)
        return _DenseIndex(self, store.sharded("dense", key, index))

    def encode_queries(self, queries: Sequence[str]) -> Array:
        """Return the vectors of queries."""
        encoder = self._encoder
        prompt = encoder.prompt("query", self._prompts[0])
        rows = encoder.vectors(queries, "query", prompt, self._batch_size)
        rows[[not len(tokens.ids) for _, tokens in tokenised(encoder.tokenizer, queries)]] = 0
        return rows


@dataclass(frozen=True, slots=True)
class _EncodePassages:
    """Turns texts into the vectors of their windows."""

    encoder: encoders.SentenceEncoder
    model: str
    window: int | None
    stride: int | None
    prompt: str | None
    batch_size: int

    def open(self) -> Callable[[Sequence[str]], Part]:
        """Load the model."""
        encoder = self.encoder
        prompt = encoder.prompt("passage", self.prompt)
        size = window_room(self.window, encoder.max_tokens, encoder.extra_tokens(prompt), self.model)
        return partial(self._encoded, prompt, size, window_stride(self.stride, size, (size + 1) // 2))

    def _encoded(self, prompt: str, size: int, stride: int, given: Sequence[str]) -> Part:
        """Return the vectors of all windows, and how many windows each text has."""
        encoder, texts = self.encoder, [replace_surrogates(text) for text in given]
        found = cut(encoder.tokenizer, texts, size, stride)
        groups = []
        for part, pieces in found.batches(texts, encoders.BATCHES_AT_ONCE * self.batch_size):
            rows = encoder.vectors(pieces, "passage", prompt, self.batch_size)
            rows[found.tokens[part] == 0] = 0
            groups.append(rows)
        groups = groups or [encoder.vectors(["a"], "passage", prompt, 1)[:0]]  # no text has no width
        return {"rows": np.concatenate(groups), "counts": np.diff(found.starts)}


class _DenseIndex:
    """The vectors of windows on disk, and the search engine that encodes queries."""

    def __init__(self, search_engine: Dense, folder: Path) -> None:
        self._search_engine = search_engine
        self._vectors = open_vectors(folder)

    def search(self, queries: Sequence[str], k: int, among: Sequence[int] | None, /) -> list[Found]:
        rows = self._search_engine.encode_queries([replace_surrogates(query) for query in queries])
        return self._vectors.search(rows, k, among)
