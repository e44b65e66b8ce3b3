"""BM25 on disk, by the package tantivy: for corpora that memory should not hold."""

from __future__ import annotations

from pathlib import Path

from kshot.backends.search.bm25 import WordSearch, read_texts
from kshot.backends.search.search_engine import Index, IndexSearchEngine, changed_options
from kshot.core.corpus import Corpus
from kshot.core.protocols import IndexStore
from kshot.index.tantivy import TantivyIndex, tantivy_package, write_tantivy
from kshot.index.words import Words


class Bm25Disk(IndexSearchEngine):
    """Lucene's BM25 (k1 = 1.2, b = 0.75) as tantivy has it: a length is kept in one byte, about 6 % off."""

    floor = 0.0

    def __init__(self, *, stem: str = "none", stopwords: str = "none") -> None:
        """Choose the words; they are the same as those of ``bm25``."""
        tantivy_package()
        self.name = "bm25:disk" + changed_options(stem=(stem, "none"), stopwords=(stopwords, "none"))
        self.words = Words(stem, stopwords)
        self.fingerprint = f"bm25:disk tantivy {self.words.fingerprint}"

    def open(self, corpus: Corpus, store: IndexStore) -> Index:
        """Index the corpus, or open the files that hold it."""

        def build(folder: Path) -> None:
            write_tantivy(folder, read_texts(corpus, self.words.spaced, store, "bm25:disk index"))

        key = {"engine": self.fingerprint, "version": 1, "corpus": corpus.digest}
        return WordSearch(TantivyIndex(store.built("bm25disk", key, build)), self.words)
