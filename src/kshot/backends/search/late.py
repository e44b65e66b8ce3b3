"""Late interaction: each token of a query is compared with each token of a passage (``late:MODEL``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from kshot.backends.search.search_engine import IndexSearchEngine, changed_options
from kshot.backends.texts import replace_surrogates
from kshot.core.corpus import Corpus
from kshot.core.errors import UsageError
from kshot.core.protocols import IndexStore
from kshot.index import encoders
from kshot.index.arrays import Array
from kshot.index.model_folders import MINILM, find_model, model_digest, require_kind
from kshot.index.ranking import Found
from kshot.index.shards import Part, TextShards, shard_ranges
from kshot.index.vectors import TopK, open_vectors, write_vectors
from kshot.index.windows import check_window_options, cut, window_room, window_stride

Precision = Literal["float16", "float32"]

_FORMAT = 1
_PURPOSE = "searching by token vectors"
_MAX_GROUP_TOKENS = 2048


class Late(IndexSearchEngine):
    """MaxSim, exact: Σ over the query's tokens of the largest cosine with a token of the passage.

    A ColBERT model (as PyLate, Stanford's code or sentence-transformers save it) chooses the tokens itself. Any other
    sentence encoder gives the last hidden states of the text's own tokens, on both sides: special tokens and prompts
    stand for no word. ``idf`` multiplies each token of the query by ln(1 + (N − n + ½) / (n + ½)), where n of the N
    passages hold it. ColBERT models have learnt such weights, and take none. Other models have not learnt that "the"
    distinguishes nothing, so ``idf`` is on for them by default (chosen on the handbook: hybrid AC_MRR@10 +0.019, 95 %:
    0.005 to 0.037, over its 84 passages; 0.618 → 0.635 over chunks of 500 tokens).

    A passage longer than a window is cut into windows, and the tokens of all of them are its tokens; ``window`` and
    ``stride`` are as for Dense, but windows overlap by a quarter only: tokens are compared one by one, so the overlap
    only has to give those at a border some of the words around them. ``precision`` is that of the vectors on disk: half
    precision halves the files and moves a cosine by less than 0.001. A text without a word scores 0.
    """

    def __init__(
        self,
        model: str = MINILM,
        *,
        window: int | None = None,
        stride: int | None = None,
        idf: bool | None = None,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
        precision: Precision = "float16",
        batch_size: int = 32,
        device: str | None = None,
    ) -> None:
        check_window_options(window, stride, batch_size)
        if precision not in get_args(Precision):
            raise UsageError(f"precision is {precision!r}", hint="Use float16 or float32.")
        folder = find_model(model, _PURPOSE)
        kind = require_kind(folder, model, "sentence encoder", "late-interaction model")
        colbert = kind == "late-interaction model"
        if colbert and (idf or query_prompt is not None or passage_prompt is not None):
            raise UsageError(
                f"{model} is a ColBERT model: it has its own weights and prompts", hint="Leave idf and prompts out."
            )
        self.name = f"late:{model}" + changed_options(
            window=(window, None),
            stride=(stride, None),
            idf=(idf, None),
            query_prompt=(query_prompt, None),
            passage_prompt=(passage_prompt, None),
            precision=(precision, "float16"),
        )
        if model.lower() == MINILM:
            window = window or encoders.MINILM_WINDOW
        self._coder = (
            _ColBERTCoder(encoders.ColBERT(folder, device), batch_size)
            if colbert
            else _HiddenStateCoder(encoders.sentence_encoder(folder, device), batch_size, query_prompt, passage_prompt)
        )
        self._model, self._batch_size = model, batch_size
        self._idf = not colbert if idf is None else idf
        self._key: dict[str, Any] = {
            "format": _FORMAT,
            "model": model_digest(folder),
            "window": window,
            "stride": stride,
            "prompt": passage_prompt,
            "precision": precision,
        }
        settings = " ".join(f"{name}={value!r}" for name, value in self._key.items())
        self.fingerprint = f"late {settings} query_prompt={query_prompt!r} idf={self._idf}"

    def open(self, corpus: Corpus, store: IndexStore, /) -> _LateIndex:
        """Encode the corpus, or open its vectors; the model is loaded only to encode, and for the first query."""
        key = self._key | {"corpus": corpus.digest}
        window, stride, precision = (self._key[name] for name in ("window", "stride", "precision"))
        work = _EncodeTokens(self._coder, self._model, window, stride, precision, self._batch_size)
        shards = shard_ranges(corpus, encoders.SHARD_PASSAGES, encoders.SHARD_CHARACTERS)
        index = TextShards(f"{self.name}: encoding, shards", work, corpus, shards, _join)
        return _LateIndex(self._coder, store.sharded("late", key, index), idf=self._idf)


@dataclass(frozen=True, slots=True)
class _EncodeTokens:
    """Turns texts into the vectors of their tokens."""

    coder: _ColBERTCoder | _HiddenStateCoder
    model: str
    window: int | None
    stride: int | None
    precision: Precision
    batch_size: int

    def open(self) -> Callable[[Sequence[str]], Part]:
        """Load the model."""
        size = window_room(self.window, self.coder.max_tokens, self.coder.extra_tokens, self.model)
        return partial(self._encoded, size, window_stride(self.stride, size, size - size // 4))

    def _encoded(self, size: int, stride: int, given: Sequence[str]) -> Part:
        """Return the vectors of all tokens, how many each text has, and in how many texts each token occurs."""
        coder, texts = self.coder, [replace_surrogates(text) for text in given]
        found = cut(coder.tokenizer, texts, size, stride)
        counts = np.zeros(len(texts), dtype=np.int64)
        groups: list[Array] = []
        for part, pieces in found.batches(texts, encoders.BATCHES_AT_ONCE * self.batch_size):
            own = [
                rows if tokens and len(rows) else np.zeros((1, rows.shape[1]), dtype=np.float32)
                for rows, tokens in zip(coder.passages(pieces), found.tokens[part], strict=True)
            ]
            np.add.at(counts, found.owners[part], [len(rows) for rows in own])
            groups += (rows.astype(self.precision) for rows in own)
        groups = groups or [coder.passages(["a"])[0][:0].astype(self.precision)]  # no text has no width
        return {"rows": np.concatenate(groups), "counts": counts, "frequencies": found.frequencies}


def _join(folder: Path, parts: Iterable[Part]) -> None:
    write_vectors(folder, parts)
    np.save(folder / "frequencies.npy", sum(part["frequencies"] for part in parts))


class _EncodedQuery(NamedTuple):
    """The vectors of a query's tokens, and the ids of these tokens (None: of a ColBERT model, so without idf)."""

    rows: Array
    ids: Array | None


class _ColBERTCoder:
    """The vectors of a ColBERT model."""

    def __init__(self, encoder: encoders.ColBERT, batch_size: int) -> None:
        self._encoder, self._batch_size = encoder, batch_size

    @property
    def max_tokens(self) -> int:
        return self._encoder.max_tokens

    @property
    def extra_tokens(self) -> int:
        return self._encoder.extra_tokens

    @property
    def tokenizer(self) -> Any:
        return self._encoder.tokenizer

    def passages(self, texts: Sequence[str]) -> list[Array]:
        return self._encoder.token_vectors(texts, "passage", self._batch_size)

    def queries(self, texts: Sequence[str]) -> list[_EncodedQuery]:
        found = self._encoder.token_vectors(texts, "query", self._batch_size)
        return [
            _EncodedQuery(rows if text.strip() else rows[:0], None) for text, rows in zip(texts, found, strict=True)
        ]


class _HiddenStateCoder:
    """The last hidden states of a sentence encoder."""

    def __init__(
        self, encoder: encoders.SentenceEncoder, batch_size: int, query_prompt: str | None, passage_prompt: str | None
    ) -> None:
        self._encoder, self._batch_size = encoder, batch_size
        self._query_prompt, self._passage_prompt = query_prompt, passage_prompt

    @property
    def max_tokens(self) -> int:
        return self._encoder.max_tokens

    @property
    def extra_tokens(self) -> int:
        return self._encoder.extra_tokens(self._encoder.prompt("passage", self._passage_prompt))

    @property
    def tokenizer(self) -> Any:
        return self._encoder.tokenizer

    def passages(self, texts: Sequence[str]) -> list[Array]:
        prompt = self._encoder.prompt("passage", self._passage_prompt)
        return [rows for _, rows in self._encoder.token_vectors(texts, prompt, self._batch_size)]

    def queries(self, texts: Sequence[str]) -> list[_EncodedQuery]:
        prompt = self._encoder.prompt("query", self._query_prompt)
        return [_EncodedQuery(rows, ids) for ids, rows in self._encoder.token_vectors(texts, prompt, self._batch_size)]


class _LateIndex:
    """The vectors of tokens on disk, and the model that encodes queries."""

    def __init__(self, coder: _ColBERTCoder | _HiddenStateCoder, folder: Path, *, idf: bool) -> None:
        self._coder = coder
        self._vectors = open_vectors(folder)
        frequencies = np.load(folder / "frequencies.npy")
        count = len(self._vectors)
        self._idf = np.log1p((count - frequencies + 0.5) / (frequencies + 0.5)).astype(np.float32) if idf else None

    def search(self, queries: Sequence[str], k: int, among: Sequence[int] | None, /) -> list[Found]:
        count = len(self._vectors) if among is None else len(among)
        found: list[Found] = []
        for group in _grouped(self._coder.queries([replace_surrogates(query) for query in queries])):
            rows = np.concatenate([one.rows for one in group])
            weights = np.concatenate([self._weights(one) for one in group])
            starts = np.cumsum([0, *(len(one.rows) for one in group)])[:-1]
            top = TopK(len(group), min(k, count))
            for positions, products in self._vectors.max_products(rows, among):
                top.add(positions, np.add.reduceat(products * weights, starts, axis=1))
            found += top.found()
        return found

    def _weights(self, query: _EncodedQuery) -> Array:
        if self._idf is None or query.ids is None:
            return np.ones(len(query.rows), dtype=np.float32)
        weights: Array = self._idf[query.ids]
        return weights


def _grouped(queries: Sequence[_EncodedQuery]) -> Iterator[list[_EncodedQuery]]:
    """Yield groups of queries with a bounded number of tokens; a query without any gets the zero vector."""
    group: list[_EncodedQuery] = []
    for query in queries:
        width = query.rows.shape[1]
        one = query if len(query.rows) else _EncodedQuery(np.zeros((1, width), dtype=np.float32), None)
        if group and sum(len(other.rows) for other in group) + len(one.rows) > _MAX_GROUP_TOKENS:
            yield group
            group = []
        group.append(one)
    if group:
        yield group
