"""BM25 in mapped memory: the weight of every word in every passage is computed once and kept in a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, get_args

from kshot.backends.search.search_engine import Index, IndexSearchEngine, changed_options, read_texts
from kshot.core.corpus import Corpus
from kshot.core.errors import UsageError
from kshot.core.protocols import IndexStore
from kshot.index.bm25 import Bm25Formula, Bm25Method, CountWords, load_bm25, save_bm25
from kshot.index.ranking import Found
from kshot.index.shards import Part, TextShards, shard_ranges
from kshot.index.tantivy import TantivyIndex, tantivy_package, write_tantivy
from kshot.index.words import Words

METHODS: tuple[Bm25Method, ...] = tuple(method for method in get_args(Bm25Method) if method != "okapi")
_SHARD_PASSAGES, _SHARD_CHARACTERS = 1 << 13, 1 << 22


class Bm25(IndexSearchEngine):
    """BM25 in memory-mapped arrays: ``score = Σ idf(t) · tf / (tf + k1 · (1 - b + b · length / average))``.

    The sum runs over the words of the query; ``method`` says which idf and tf are meant, and ``lucene`` means
    ``idf = ln(1 + (N - df + ½) / (df + ½))``. A passage with score 0 is not found. ``bm25l`` and ``bm25+`` give every
    passage a constant that depends on the query alone; it is left out.
    """

    floor = 0.0

    def __init__(
        self,
        *,
        k1: float = 1.5,
        b: float = 0.75,
        method: Bm25Method = "lucene",
        stem: str = "none",
        stopwords: str = "none",
    ) -> None:
        """Check the options."""
        if method not in METHODS:
            raise UsageError(f"method is {method!r}; it must be one of {', '.join(METHODS)}")
        self.formula = Bm25Formula(method, float(k1), float(b))
        self.name = "bm25" + changed_options(Bm25, k1=k1, b=b, method=method, stem=stem, stopwords=stopwords)
        self.words = Words(stem, stopwords)
        self.fingerprint = f"bm25 {method} k1={self.formula.k1} b={self.formula.b} {self.words.fingerprint}"

    def open(self, corpus: Corpus, store: IndexStore) -> Index:
        """Compute the weights of all words in the corpus, or map the files that hold them."""

        def join(folder: Path, parts: Iterable[Part]) -> None:
            save_bm25(folder, parts, self.formula)

        key = {"engine": self.fingerprint, "version": 1, "corpus": corpus.digest}
        work = CountWords(self.words.stem, self.words.stopwords)
        shards = shard_ranges(corpus, _SHARD_PASSAGES, _SHARD_CHARACTERS)
        index = TextShards("bm25 index, shards", work, corpus, shards, join)
        return WordSearch(load_bm25(store.sharded("bm25", key, index), len(corpus)), self.words)


class _IndexOfWords(Protocol):
    def search(self, queries: Sequence[Sequence[str]], k: int, among: Sequence[int] | None, /) -> list[Found]: ...


class WordSearch:
    """An index that takes the words of queries, together with the rule that finds them."""

    def __init__(self, index: _IndexOfWords, words: Words) -> None:
        """Take both."""
        self._index, self._words = index, words

    def search(self, queries: Sequence[str], k: int, among: Sequence[int] | None, /) -> list[Found]:
        """Find the ``k`` best passages for each query."""
        return self._index.search([self._words(query) for query in queries], k, among)


class Bm25Disk(IndexSearchEngine):
    """Lucene's BM25 (k1 = 1.2, b = 0.75) as tantivy has it: a length is kept in one byte, about 6 % off."""

    floor = 0.0

    def __init__(self, *, stem: str = "none", stopwords: str = "none") -> None:
        """Choose the words; they are the same as those of ``bm25``."""
        tantivy_package()
        self.name = "bm25:disk" + changed_options(Bm25Disk, stem=stem, stopwords=stopwords)
        self.words = Words(stem, stopwords)
        self.fingerprint = f"bm25:disk tantivy {self.words.fingerprint}"

    def open(self, corpus: Corpus, store: IndexStore) -> Index:
        """Index the corpus, or open the files that hold it."""

        def build(folder: Path) -> None:
            write_tantivy(folder, read_texts(corpus, self.words.spaced, store, "bm25:disk index"))

        key = {"engine": self.fingerprint, "version": 1, "corpus": corpus.digest}
        return WordSearch(TantivyIndex(store.built("bm25disk", key, build)), self.words)
