"""Nearest by words: BM25 over the training rows, all test rows at once, in numpy alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kshot.core.errors import BadValue
from kshot.retrievers.base import Comparing
from kshot.retrievers.ranking import BLOCK_BYTES, Doubles, Floats, Ints, best, blocks

Tokenize: TypeAlias = Callable[[str], Sequence[str]]
Variant: TypeAlias = Literal["lucene", "okapi"]

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"  # kana, Han, Hangul: scripts whose words are not set apart
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_TOKEN = re.compile(r"\w+|[^\w\s]")
DENSE_SHARE = 0.1
"""Words in more than this share of the rows are summed as a matrix product, the others row list by row list."""


def words(text: str) -> list[str]:
    """Lower-case words; each character of an unspaced script by itself."""
    return _WORD.findall(text.lower())


def tokens(text: str) -> list[str]:
    """Words and punctuation marks as they are written: what compat counts."""
    return _TOKEN.findall(text)


class Bm25Index:
    """Weights of every word in every row, worked out once.

    The weight of word t in row d is ``idf(t) · tf / (tf + k1 · (1 - b + b · len(d) / average))``, and a row's score is
    the sum over the words of the query. ``lucene``: ``idf = log(1 + (N - df + ½) / (df + ½))``. ``okapi``, as the
    package rank_bm25 has it: ``idf = log((N - df + ½) / (df + ½))``, a negative one becomes a quarter of the mean idf,
    and weights are ``k1 + 1`` times as large.
    """

    def __init__(
        self, texts: Iterable[Sequence[str]], *, variant: Variant = "lucene", k1: float = 1.5, b: float = 0.75
    ) -> None:
        """Count the words of each row and weigh them."""
        self.vocabulary: dict[str, int] = {}
        number = self.vocabulary.setdefault
        flat: list[int] = []
        lengths: list[int] = []
        for text in texts:
            flat.extend(number(word, len(self.vocabulary)) for word in text)
            lengths.append(len(text))
        self.size, terms = len(lengths), max(len(self.vocabulary), 1)
        rows = np.repeat(np.arange(self.size, dtype=np.int64), lengths)
        pairs, counts = np.unique(rows * terms + np.asarray(flat, dtype=np.int64), return_counts=True)
        self._doc, self._term = np.divmod(pairs, terms)
        df = np.bincount(self._term, minlength=terms)
        share = np.asarray(lengths, dtype=np.float64) / max(len(flat) / max(self.size, 1), 1e-9)
        bulk = k1 * (1 - b + b * share[self._doc])
        self._weight: Doubles = _idf(df, self.size, variant)[self._term] * counts / (counts + bulk)
        if variant == "okapi":
            self._weight *= k1 + 1
        self._row_starts = np.searchsorted(self._doc, np.arange(self.size + 1))
        self._lay_out_by_word(df)

    def _lay_out_by_word(self, df: npt.NDArray[np.int64]) -> None:
        """Keep the rows of each word together; the commonest words as rows of a matrix."""
        order = np.argsort(self._term, kind="stable")
        self._docs, self._light = self._doc[order], self._weight[order].astype(np.float32)
        self._word_starts = np.concatenate(([0], np.cumsum(df)))
        self._largest = np.zeros(len(df))
        np.maximum.at(self._largest, self._term, np.abs(self._weight))
        room = BLOCK_BYTES // (4 * max(self.size, 1))
        common = np.argsort(-df, kind="stable")[:room]
        common = common[df[common] > DENSE_SHARE * self.size]
        self._place = {int(term): at for at, term in enumerate(common)}
        self._matrix = np.zeros((len(common), self.size), dtype=np.float32)
        for term, at in self._place.items():
            span = self._span(term)
            self._matrix[at, self._docs[span]] = self._light[span]

    def _span(self, term: int) -> slice:
        return slice(int(self._word_starts[term]), int(self._word_starts[term + 1]))

    def search(
        self, queries: Sequence[Sequence[str]], k: int, hidden: Callable[[int], Sequence[int]]
    ) -> Iterator[list[int]]:
        """For each query its ``k`` best rows, best first, without the hidden ones."""
        for cut in blocks(len(queries), self.size):
            asked = [self._known(query) for query in queries[cut]]
            # twice the worst rounding error of a float32 sum of this many terms
            slack = [2e-7 * (len(each) + 4) * sum(n * self._largest[t] for t, n in each.items()) for each in asked]
            found = best(
                self._scores(asked),
                k,
                np.asarray(slack, dtype=np.float32),
                lambda rows, columns, asked=asked: self._exact(asked, rows, columns),  # type: ignore[misc]
                [hidden(row) for row in range(cut.start, cut.stop)],
            )
            yield from (each.tolist() for each in found)

    def _known(self, query: Sequence[str]) -> dict[int, int]:
        counted = Counter(self.vocabulary[word] for word in query if word in self.vocabulary)
        return dict(sorted(counted.items()))

    def _scores(self, asked: Sequence[dict[int, int]]) -> Floats:
        common = np.zeros((len(asked), len(self._matrix)), dtype=np.float32)
        for row, query in enumerate(asked):
            for term, many in query.items():
                if term in self._place:
                    common[row, self._place[term]] = many
        scores: Floats = common @ self._matrix
        for line, query in zip(scores, asked, strict=True):
            for term, many in query.items():
                if term not in self._place:
                    span = self._span(term)
                    line[self._docs[span]] += self._light[span] if many == 1 else many * self._light[span]
        return scores

    def _exact(self, asked: Sequence[dict[int, int]], rows: Ints, columns: Ints) -> Doubles:
        scores = np.zeros(len(rows))
        counts = np.zeros(len(self._word_starts) - 1)
        ends = np.searchsorted(rows, np.arange(len(asked) + 1))
        for row, query in enumerate(asked):
            mine = slice(ends[row], ends[row + 1])
            if mine.start == mine.stop:
                continue
            terms = list(query)
            counts[terms] = list(query.values())
            starts = self._row_starts[columns[mine]]
            many = self._row_starts[columns[mine] + 1] - starts
            before = np.cumsum(many) - many
            held = np.arange(many.sum()) + np.repeat(starts - before, many)
            parts = counts[self._term[held]] * self._weight[held]
            scores[mine] = np.bincount(np.repeat(np.arange(len(many)), many), parts, minlength=len(many))
            counts[terms] = 0
        return scores


def _idf(df: npt.NDArray[np.int64], size: int, variant: Variant) -> Doubles:
    odds = (size - df + 0.5) / (df + 0.5)
    if variant == "lucene":
        return np.log1p(odds)
    idf: Doubles = np.log(odds)
    return np.where(idf < 0, 0.25 * idf.mean(), idf)


class BM25Retriever(Comparing):
    """The training rows whose words weigh most for the test row.

    ``tokenize`` turns a text into words. compat weighs as the originals' package does (``okapi``, case and punctuation
    count) and puts the nearest first.
    """

    def __init__(
        self,
        dataset: Any,
        *places: Any,
        tokenize: Tokenize | None = None,
        variant: Variant | None = None,
        k1: float = 1.5,
        b: float = 0.75,
        **options: Any,
    ) -> None:
        """Keep the options; the index is built when it is needed."""
        super().__init__(dataset, *places, **options)
        self.variant: Variant = variant or ("lucene" if self.strict else "okapi")
        if self.variant not in ("lucene", "okapi"):
            raise BadValue(f"variant is {variant!r}; it must be lucene or okapi")
        if not (k1 >= 0 and 0 <= b <= 1):
            raise BadValue(f"k1 is {k1} and b is {b}; k1 must be 0 or more, and b from 0 to 1")
        self.k1, self.b = k1, b
        self._tokenize: Tokenize = tokenize or (words if self.strict else tokens)

    @property
    def facts(self) -> dict[str, Any]:
        """What a run should record of this choice, as plain JSON values."""
        return {**super().facts, "variant": self.variant, "k1": self.k1, "b": self.b}

    def ranked(self) -> Iterator[Sequence[int]]:
        """Index the training rows, then search for all test rows."""
        self.check_pool()
        index = Bm25Index(
            (self._tokenize(self.compared(row)) for row in self.train), variant=self.variant, k1=self.k1, b=self.b
        )
        queries = [self._tokenize(self.compared(row)) for row in self.test]
        return index.search(queries, self.ice_num, self.excluded)
