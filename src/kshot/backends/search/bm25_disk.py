"""BM25 by the package tantivy: an index that stays on disk, for corpora that memory should not hold."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kshot.backends.search.search_engine import Found, Index, IndexSearchEngine, shown
from kshot.core.corpus import Corpus
from kshot.core.errors import MissingExtra
from kshot.core.protocols import IndexStore
from kshot.index.store import damaged
from kshot.index.words import Words

HEAP = 128_000_000
TOKENIZER = "between_spaces"
ROUNDING = 2e-6
"""Scores that are nearer than this to each other, relatively, are equal: tantivy adds up float32 in no fixed order."""


class Bm25Disk(IndexSearchEngine):
    """Lucene's BM25 (k1 = 1.2, b = 0.75) as tantivy has it: lengths are kept in a byte, about 6 % from the truth."""

    floor = 0.0

    def __init__(self, *, stem: str = "none", stopwords: str = "none") -> None:
        """Choose the words; they are the same as those of ``bm25``."""
        _tantivy()
        self.name = "bm25:disk" + shown(stem=(stem, "none"), stopwords=(stopwords, "none"))
        self.words = Words(stem, stopwords)
        self.fingerprint = f"bm25:disk tantivy {self.words.fingerprint}"

    def open(self, corpus: Corpus, store: IndexStore) -> Index:
        """Index the corpus, or open the files that hold it."""
        key = {"engine": self.fingerprint, "version": 1, "corpus": corpus.digest}
        folder = store.built("bm25disk", key, lambda fresh: self._write(fresh, corpus, store))
        return _TantivyIndex(folder, self.words)

    def _write(self, folder: Path, corpus: Corpus, store: IndexStore) -> None:
        tantivy = _tantivy()
        schema = tantivy.SchemaBuilder()
        schema.add_text_field("words", tokenizer_name=TOKENIZER, index_option="freq")
        schema.add_unsigned_field("position", fast=True, indexed=True)
        index = tantivy.Index(schema.build(), path=str(folder))
        _register(index)
        writer = index.writer(HEAP, min(os.cpu_count() or 1, 4))
        for position, passage in enumerate(corpus.passages):
            if position % 10_000 == 0:
                store.progress("bm25:disk index", position, len(corpus))
            document = tantivy.Document()
            document.add_text("words", self.words.spaced(passage.text))
            document.add_unsigned("position", position)
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        store.progress("bm25:disk index", len(corpus), len(corpus))


def _tantivy() -> Any:
    try:
        import tantivy
    except ImportError as exc:
        raise MissingExtra("tantivy", "search", "bm25:disk") from exc
    return tantivy


def _register(index: Any) -> None:
    """Let it take words as they are: they were found by our own rule."""
    tantivy = _tantivy()
    index.register_tokenizer(TOKENIZER, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())


class _TantivyIndex:
    def __init__(self, folder: Path, words: Words) -> None:
        self._folder, self._words, self._tantivy = folder, words, _tantivy()
        self._filter: tuple[Sequence[int], Any] | None = None
        try:
            self._index = self._tantivy.Index.open(str(folder))
            _register(self._index)
            self._searcher, self._schema = self._index.searcher(), self._index.schema
        except (ValueError, OSError) as exc:
            raise damaged(folder, exc) from exc

    def search(self, queries: Sequence[str], k: int, among: Sequence[int] | None) -> list[Found]:
        """Ask query by query."""
        try:
            return [self._one(query, k, among) for query in queries]
        except (ValueError, OSError) as exc:
            raise damaged(self._folder, exc) from exc

    def _one(self, query: str, k: int, among: Sequence[int] | None) -> Found:
        counted = Counter(self._words(query))
        if not counted:
            return Found((), ())
        asked = self._asked(counted)
        if among is not None:
            must = self._tantivy.Occur.Must
            asked = self._tantivy.Query.boolean_query([(must, self._within(among)), (must, asked)])
        limit = k + 1  # the more are wanted, the fewer passages tantivy can pass by
        while True:
            hits = self._searcher.search(asked, limit, count=False).hits
            # all that are as good as the k-th must be in sight: the lower position goes first
            if len(hits) < limit or hits[-1][0] < hits[k - 1][0] * (1 - ROUNDING):
                break
            limit *= 4
        positions = self._searcher.fast_field_values("position", [address for _, address in hits])
        return _levelled([score for score, _ in hits], positions, k)

    def _asked(self, counted: Counter[str]) -> Any:
        query, should = self._tantivy.Query, self._tantivy.Occur.Should
        parts = []
        for word, many in counted.items():
            part = query.term_query(self._schema, "words", word, "freq")
            parts.append((should, part if many == 1 else query.boost_query(part, float(many))))
        return parts[0][1] if len(parts) == 1 else query.boolean_query(parts)

    def _within(self, among: Sequence[int]) -> Any:
        """The filter for these positions, which counts nothing; the last one is kept."""
        if self._filter is None or self._filter[0] is not among:
            query = self._tantivy.Query
            members = query.term_set_query(self._schema, "position", list(among))
            self._filter = among, query.const_score_query(members, 0.0)
        return self._filter[1]


def _levelled(scores: Sequence[float], positions: Sequence[int], k: int) -> Found:
    """Make scores equal that only rounding has parted, and order those by position."""
    level: list[float] = []
    last = math.inf
    for score in scores:
        level.append(level[-1] if level and last - score <= last * ROUNDING else score)
        last = score
    order = sorted(range(len(level)), key=lambda at: (-level[at], positions[at]))[:k]
    return Found([positions[at] for at in order], [level[at] for at in order])
