"""The scores of the package rank_bm25 (``BM25Okapi``), to the last bit: OpenCompass ranks examples by them.

A last bit decides between rows that score alike. So each operation is in the package's order and in its precision; only
the texts that do not hold a word are skipped, to which it adds 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from kshot.index.arrays import Doubles
from kshot.index.postings import by_word, count_words

_FLOOR_SHARE = 0.25
"""A word in more than half of the texts has this share of the mean idf instead of its own, which is negative."""


class OkapiScores:
    """BM25 scores of all texts, given as lists of words, for one query at a time."""

    def __init__(self, texts: Iterable[Sequence[str]], k1: float = 1.5, b: float = 0.75) -> None:
        """Count the words of each text."""
        counts = count_words(texts)
        self._vocabulary, self._size, self._k1 = counts.vocabulary, len(counts.lengths), k1
        self._postings = by_word(counts, counts.counts.astype(np.float64))
        self._idf = self._floored(counts.document_frequencies.tolist())
        average = counts.average_length or 1.0
        self._norm: Doubles = k1 * (1 - b + b * counts.lengths.astype(np.float64) / average)

    def _floored(self, frequencies: Sequence[int]) -> list[float]:
        """Return the idf of each word; words are numbered as they first appear, which is the package's order too."""
        idf = [math.log(self._size - each + 0.5) - math.log(each + 0.5) for each in frequencies]
        total = 0.0
        for value in idf:  # not ``sum``, which rounds differently from Python 3.12 on
            total += value
        floor = _FLOOR_SHARE * (total / max(len(idf), 1))
        return [floor if value < 0 else value for value in idf]

    def of(self, query: Iterable[str]) -> Doubles:
        """Return the score of each text for the words of a query; a word that stands twice counts twice."""
        scores = np.zeros(self._size)
        for word in query:
            number = self._vocabulary.get(word)
            if number is None:
                continue
            span = self._postings.of(number)
            texts, tf = self._postings.texts[span], self._postings.weights[span]
            scores[texts] += self._idf[number] * (tf * (self._k1 + 1) / (tf + self._norm[texts]))
        return scores
