"""BM25 by the package bm25s: the weight of every word in every passage is worked out once and kept in a file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kshot.backends.search.search_engine import Found, Index, IndexSearchEngine, best, shown
from kshot.core.corpus import Corpus
from kshot.core.errors import UsageError
from kshot.core.protocols import IndexStore
from kshot.index.store import damaged
from kshot.index.words import Words, bm25s

METHODS = ("lucene", "robertson", "atire", "bm25l", "bm25+")
LONG = 1000
NOTHING = Found((), ())


class Bm25(IndexSearchEngine):
    """BM25 in memory-mapped arrays: ``score = Σ idf(t) · tf / (tf + k1 · (1 - b + b · length / average))``.

    The sum runs over the words of the query; ``method`` says which idf and tf are meant, and ``lucene`` means
    ``idf = ln(1 + (N - df + ½) / (df + ½))``. A passage with score 0 is not found. ``bm25l`` and ``bm25+`` give every
    passage a constant that depends on the query alone; it is left out.
    """

    floor = 0.0

    def __init__(
        self, *, k1: float = 1.5, b: float = 0.75, method: str = "lucene", stem: str = "none", stopwords: str = "none"
    ) -> None:
        """Check the options."""
        if method not in METHODS:
            raise UsageError(f"method is {method!r}; it must be one of {', '.join(METHODS)}")
        if not (math.isfinite(k1) and k1 >= 0 and 0 <= b <= 1):
            raise UsageError(f"k1 is {k1} and b is {b}; k1 must be 0 or more, and b from 0 to 1")
        self.name = "bm25" + shown(
            k1=(k1, 1.5), b=(b, 0.75), method=(method, "lucene"), stem=(stem, "none"), stopwords=(stopwords, "none")
        )
        self.words = Words(stem, stopwords)
        self.k1, self.b, self.method = float(k1), float(b), method
        self.fingerprint = f"bm25 {method} k1={self.k1} b={self.b} {self.words.fingerprint}"
        bm25s()

    def open(self, corpus: Corpus, store: IndexStore) -> Index:
        """Weigh the words of the corpus, or map the file where they are."""
        key = {"engine": self.fingerprint, "version": 1, "corpus": corpus.digest}
        folder = store.built("bm25", key, lambda fresh: self._write(fresh, corpus, store))
        return _Bm25Index(folder, self.words, len(corpus))

    def _write(self, folder: Path, corpus: Corpus, store: IndexStore) -> None:
        ids, vocabulary = self._numbered(corpus, store)
        if not vocabulary:
            return  # bm25s cannot index passages without any word; an empty folder stands for them
        made = bm25s().BM25(k1=self.k1, b=self.b, method=self.method)
        made.index((ids, vocabulary), create_empty_token=False, show_progress=False)
        made.save(folder, show_progress=False)

    def _numbered(self, corpus: Corpus, store: IndexStore) -> tuple[list[list[int]], dict[str, int]]:
        """Each passage as the numbers of its words, and the words."""
        vocabulary: dict[str, int] = {}
        ids = []
        for position, passage in enumerate(corpus.passages):
            if position % 10_000 == 0:
                store.progress("bm25 index", position, len(corpus))
            row = self.words(passage.text)
            try:
                ids.append([vocabulary[word] for word in row])
            except KeyError:  # a new word: rare after the first passages
                ids.append([vocabulary.setdefault(word, len(vocabulary)) for word in row])
        store.progress("bm25 index", len(corpus), len(corpus))
        return ids, vocabulary


class _Bm25Index:
    """bm25s's arrays, searched by a scratch array of scores that is wiped where it was written.

    That way a query costs as much as the passages that have its words, not as much as the corpus.
    """

    def __init__(self, folder: Path, words: Words, size: int) -> None:
        import numpy as np

        self._words, self._size = words, size
        self._vocabulary: dict[str, int] = {}
        if not (folder / "params.index.json").exists():
            return
        try:
            made = bm25s().BM25.load(folder, mmap=True, show_progress=False)
            self._vocabulary = made.vocab_dict
            parts = [np.asarray(made.scores[name]) for name in ("data", "indices", "indptr")]
            self._data, self._indices = parts[:2]
            self._starts: list[int] = parts[2].tolist()
        except (OSError, ValueError, KeyError, TypeError, EOFError) as exc:
            raise damaged(folder, exc) from exc
        if len(self._starts) != len(self._vocabulary) + 1 or self._starts[-1] != len(self._data):
            raise damaged(folder, ValueError("its files do not fit together"))
        self._scratch = np.zeros(size, dtype=self._data.dtype)

    def search(self, queries: Sequence[str], k: int, among: Sequence[int] | None) -> list[Found]:
        """Score query by query."""
        import numpy as np

        allowed = None if among is None else np.asarray(among, dtype=np.intp)
        return [self._one(self._known(query), k, allowed) for query in queries]

    def _known(self, query: str) -> list[int]:
        number = self._vocabulary.get
        return [at for word in self._words(query) if (at := number(word)) is not None]

    def _one(self, asked: Sequence[int], k: int, allowed: Any) -> Found:
        if not asked:
            return NOTHING
        scores, touched = self._scratch, []
        # a word twice counts twice; very long queries are counted first, at the price of another rounding
        times = Counter(asked).items() if len(asked) > LONG else ((at, 1) for at in asked)
        for at, many in times:
            span = slice(self._starts[at], self._starts[at + 1])
            rows = self._indices[span]
            scores[rows] += self._data[span] if many == 1 else self._data[span] * many  # each passage is there once
            touched.append(rows)
        entries = sum(map(len, touched))
        if allowed is not None:
            found = _positive(scores[allowed], k, allowed)
        elif entries < self._size // 4:
            found = _positive(*_shortlist(scores, touched, k))
        else:
            found = _positive(scores, k, None)
        if entries > self._size // 8:
            scores.fill(0)
        else:
            for rows in touched:
                scores[rows] = 0
        return found


def _shortlist(scores: Any, touched: Sequence[Any], k: int) -> tuple[Any, int, Any]:
    """The scores and positions of few passages among which the best ``k`` are.

    With n words a passage is touched up to n times, so the best n · k entries hold the best k passages.
    """
    import numpy as np

    rows = np.concatenate(touched) if len(touched) > 1 else touched[0]
    many = len(touched) * k
    if len(rows) > many:
        values = scores[rows]
        rows = rows[values >= np.partition(values, len(values) - many)[len(values) - many]]
    rows = np.unique(rows)
    return scores[rows], k, rows


def _positive(scores: Any, k: int, positions: Any) -> Found:
    """The best, without those that have nothing of the query."""
    found = best(scores, k, positions)
    if found.scores and found.scores[-1] <= 0:
        many = next(at for at, score in enumerate(found.scores) if score <= 0)
        return Found(found.positions[:many], found.scores[:many])
    return found
