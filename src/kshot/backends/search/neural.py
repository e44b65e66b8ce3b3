"""Search by neural models: one vector for each text (dense), one for each token (late), cross-encoders (rerank)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from kshot.backends.search.search_engine import Index, IndexSearchEngine, changed_options
from kshot.backends.texts import replace_surrogates
from kshot.core.corpus import Corpus
from kshot.core.errors import UsageError
from kshot.core.protocols import IndexStore, Work
from kshot.index import encoders
from kshot.index.model_folders import MINILM, find_model, model_digest, require_kind
from kshot.index.ranking import Array, Found
from kshot.index.shards import Part, TextShards, shard_ranges
from kshot.index.vectors import TopK, open_vectors, write_vectors
from kshot.index.windows import TokenSpans, check_window_options, cut, tokenised, window_room, window_stride, windows

_FORMAT = 1


def _usual_window(window: int | None, model: str) -> int | None:
    return window or (encoders.MINILM_WINDOW if model.lower() == MINILM else None)


def _shards(name: str, work: Work, corpus: Corpus, join: Callable[[Path, Iterable[Part]], None]) -> TextShards:
    ranges = shard_ranges(corpus, encoders.SHARD_PASSAGES, encoders.SHARD_CHARACTERS)
    return TextShards(f"{name}: encoding, shards", work, corpus, ranges, join)


Precision = Literal["float16", "float32"]


@dataclass(frozen=True, slots=True)
class _EncodePassages:
    """Turns texts into the vectors of their windows, or of the tokens of these, as the coder gives them.

    Unless there is a stride, windows overlap by one of ``parts`` parts.
    """

    coder: _SentenceCoder | _ColBERTCoder
    model: str
    window: int | None
    stride: int | None
    precision: Precision
    batch_size: int
    parts: int

    def open(self) -> Callable[[Sequence[str]], Part]:
        """Load the model."""
        size = window_room(self.window, self.coder.encoder.max_tokens, self.coder.extra_tokens, self.model)
        return partial(self._encoded, size, window_stride(self.stride, size, size - size // self.parts))

    def _encoded(self, size: int, stride: int, given: Sequence[str]) -> Part:
        """Return all vectors, how many each text has, and in how many texts each token occurs."""
        coder, texts = self.coder, [replace_surrogates(text) for text in given]
        found = cut(coder.encoder.tokenizer, texts, size, stride)
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


# ---- one vector for each passage ----


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
        folder = find_model(model, "searching by sentence vectors")
        require_kind(folder, model, "sentence encoder")
        self.name = f"dense:{model}" + changed_options(
            Dense, window=window, stride=stride, query_prompt=query_prompt, passage_prompt=passage_prompt
        )
        window = _usual_window(window, model)
        encoder, digest = encoders.sentence_encoder(folder, device), model_digest(folder)
        self._coder = _SentenceCoder(encoder, batch_size, query_prompt, passage_prompt)
        self._work = _EncodePassages(self._coder, model, window, stride, "float32", batch_size, 2)
        self._key = {"format": _FORMAT, "model": digest, "window": window, "stride": stride, "prompt": passage_prompt}
        prompts = query_prompt, passage_prompt
        self.fingerprint = f"dense {digest} window={window} stride={stride} prompts={prompts!r}"

    def open(self, corpus: Corpus, store: IndexStore, /) -> _DenseIndex:
        """Encode the corpus, or open its vectors; the model is loaded only to encode, and for the first query."""
        index = _shards(self.name, self._work, corpus, write_vectors)
        return _DenseIndex(self._coder, store.sharded("dense", self._key | {"corpus": corpus.digest}, index))


class _SentenceCoder:
    """The vector of each text, by a sentence encoder."""

    def __init__(
        self, encoder: encoders.SentenceEncoder, batch_size: int, query_prompt: str | None, passage_prompt: str | None
    ) -> None:
        self.encoder, self._batch_size = encoder, batch_size
        self._query_prompt, self._passage_prompt = query_prompt, passage_prompt

    @property
    def extra_tokens(self) -> int:
        return self.encoder.extra_tokens(self.encoder.prompt("passage", self._passage_prompt))

    def passages(self, texts: Sequence[str]) -> list[Array]:
        prompt = self.encoder.prompt("passage", self._passage_prompt)
        return list(self.encoder.vectors(texts, "passage", prompt, self._batch_size)[:, None])

    def query_rows(self, queries: Sequence[str]) -> Array:
        """Return the vectors of queries, those without a word as zeros."""
        prompt = self.encoder.prompt("query", self._query_prompt)
        rows = self.encoder.vectors(queries, "query", prompt, self._batch_size)
        rows[[not len(tokens.ids) for _, tokens in tokenised(self.encoder.tokenizer, queries)]] = 0
        return rows


class _DenseIndex:
    """The vectors of windows on disk, and the model that encodes queries."""

    def __init__(self, coder: _SentenceCoder, folder: Path) -> None:
        self._coder = coder
        self._vectors = open_vectors(folder)

    def search(self, queries: Sequence[str], k: int, among: Sequence[int] | None, /) -> list[Found]:
        rows = self._coder.query_rows([replace_surrogates(query) for query in queries])
        return self._vectors.search(rows, k, among)


# ---- one vector for each token ----

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
        folder = find_model(model, "searching by token vectors")
        kind = require_kind(folder, model, "sentence encoder", "late-interaction model")
        colbert = kind == "late-interaction model"
        if colbert and (idf or query_prompt is not None or passage_prompt is not None):
            raise UsageError(
                f"{model} is a ColBERT model: it has its own weights and prompts", hint="Leave idf and prompts out."
            )
        prompts = {"query_prompt": query_prompt, "passage_prompt": passage_prompt}
        self.name = f"late:{model}" + changed_options(
            Late, window=window, stride=stride, idf=idf, **prompts, precision=precision
        )
        window = _usual_window(window, model)
        self._coder = (
            _ColBERTCoder(encoders.ColBERT(folder, device), batch_size)
            if colbert
            else _HiddenStateCoder(encoders.sentence_encoder(folder, device), batch_size, query_prompt, passage_prompt)
        )
        self._work = _EncodePassages(self._coder, model, window, stride, precision, batch_size, 4)
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
        index = _shards(self.name, self._work, corpus, _join)
        key = self._key | {"corpus": corpus.digest}
        return _LateIndex(self._coder, store.sharded("late", key, index), idf=self._idf)


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
        self.encoder, self._batch_size = encoder, batch_size

    @property
    def extra_tokens(self) -> int:
        return self.encoder.extra_tokens

    def passages(self, texts: Sequence[str]) -> list[Array]:
        return self.encoder.token_vectors(texts, "passage", self._batch_size)

    def queries(self, texts: Sequence[str]) -> list[_EncodedQuery]:
        found = self.encoder.token_vectors(texts, "query", self._batch_size)
        return [
            _EncodedQuery(rows if text.strip() else rows[:0], None) for text, rows in zip(texts, found, strict=True)
        ]


class _HiddenStateCoder(_SentenceCoder):
    """The last hidden states of a sentence encoder."""

    def passages(self, texts: Sequence[str]) -> list[Array]:
        prompt = self.encoder.prompt("passage", self._passage_prompt)
        return [rows for _, rows in self.encoder.token_vectors(texts, prompt, self._batch_size)]

    def queries(self, texts: Sequence[str]) -> list[_EncodedQuery]:
        prompt = self.encoder.prompt("query", self._query_prompt)
        return [_EncodedQuery(rows, ids) for ids, rows in self.encoder.token_vectors(texts, prompt, self._batch_size)]


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


# ---- reranking ----

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
        folder = find_model(model, "reranking with a cross-encoder")
        require_kind(folder, model, "cross-encoder")
        self.name = f"rerank:{model}{changed_options(Rerank, depth=depth)}@{search_engine.name}"
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
