"""BM25 for many queries at once: common words as a matrix product, and rankings decided in double precision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from kshot.index import ranking
from kshot.index.arrays import Doubles, Floats, Positions
from kshot.index.bm25 import Bm25Formula
from kshot.index.postings import by_word, count_words
from kshot.index.ranking import best_columns, row_blocks

DENSE_SHARE = 0.1
"""Words in more than this share of the texts are summed as a matrix product, the others entry by entry."""


class Bm25BatchIndex:
    """The weights of every word in every text, in memory."""

    def __init__(self, texts: Iterable[Sequence[str]], formula: Bm25Formula) -> None:
        """Count the words of each text and compute their weights."""
        counts = count_words(texts)
        self.vocabulary, self.size = counts.vocabulary, len(counts.lengths)
        self._words = counts.words.astype(np.intp)
        self._weights: Doubles = formula.weights(counts, np.float64)
        self._text_starts = np.searchsorted(counts.texts, np.arange(self.size + 1))
        self._largest = np.zeros(len(self.vocabulary))
        np.maximum.at(self._largest, self._words, np.abs(self._weights))
        postings = by_word(counts, self._weights.astype(np.float32))
        self._postings = postings._replace(texts=postings.texts.astype(np.intp))
        self._lay_out_common_words()

    def _lay_out_common_words(self) -> None:
        """Keep the weights of the commonest words as rows of a matrix."""
        frequencies = np.diff(self._postings.starts)
        room = ranking.BLOCK_BYTES // (4 * max(self.size, 1))
        common = np.argsort(-frequencies, kind="stable")[:room]
        common = common[frequencies[common] > DENSE_SHARE * self.size]
        self._matrix_rows = {int(word): at for at, word in enumerate(common)}
        self._matrix = np.zeros((len(common), self.size), dtype=np.float32)
        for word, at in self._matrix_rows.items():
            span = self._postings.of(word)
            self._matrix[at, self._postings.texts[span]] = self._postings.weights[span]

    def search(
        self, queries: Sequence[Sequence[str]], k: int, hidden: Callable[[int], Sequence[int]]
    ) -> Iterator[list[int]]:
        """Yield for each query (a list of words) its ``k`` best texts, best first, without the hidden ones.

        A text that holds no word of the query has the score 0, and comes after those that do.
        """
        for block in row_blocks(len(queries), self.size):
            counted = [self.known(query) for query in queries[block]]
            # twice the worst rounding error of a float32 sum of this many terms
            slack = [2e-7 * (len(each) + 4) * sum(n * self._largest[w] for w, n in each.items()) for each in counted]
            found = best_columns(
                self.scores(counted),
                k,
                np.asarray(slack, dtype=np.float32),
                partial(self.exact_scores, counted),
                [hidden(row) for row in range(block.start, block.stop)],
            )
            yield from (each.tolist() for each in found)

    def known(self, query: Sequence[str]) -> dict[int, int]:
        """Return the numbers of the query's words that some text holds, and how often each stands in the query."""
        counted = Counter(self.vocabulary[word] for word in query if word in self.vocabulary)
        return dict(sorted(counted.items()))

    def scores(self, queries: Sequence[dict[int, int]]) -> Floats:
        """Return the scores of all texts for each query, in float32."""
        common = np.zeros((len(queries), len(self._matrix)), dtype=np.float32)
        for row, query in enumerate(queries):
            for word, count in query.items():
                if word in self._matrix_rows:
                    common[row, self._matrix_rows[word]] = count
        scores: Floats = common @ self._matrix
        texts, weights = self._postings.texts, self._postings.weights
        for line, query in zip(scores, queries, strict=True):
            for word, count in query.items():
                if word not in self._matrix_rows:
                    span = self._postings.of(word)
                    line[texts[span]] += weights[span] if count == 1 else count * weights[span]
        return scores

    def exact_scores(self, queries: Sequence[dict[int, int]], rows: Positions, texts: Positions) -> Doubles:
        """Return the scores of pairs of a query (rows ascending) and a text, in float64."""
        scores = np.zeros(len(rows))
        counts = np.zeros(len(self.vocabulary))
        ends = np.searchsorted(rows, np.arange(len(queries) + 1))
        for row, query in enumerate(queries):
            own = slice(ends[row], ends[row + 1])
            if own.start == own.stop:
                continue
            words = list(query)
            counts[words] = list(query.values())
            starts = self._text_starts[texts[own]]
            lengths = self._text_starts[texts[own] + 1] - starts
            before = np.cumsum(lengths) - lengths
            entries = np.arange(lengths.sum()) + np.repeat(starts - before, lengths)
            parts = counts[self._words[entries]] * self._weights[entries]
            scores[own] = np.bincount(np.repeat(np.arange(len(lengths)), lengths), parts, minlength=len(lengths))
            counts[words] = 0
        return scores
