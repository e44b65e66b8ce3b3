"""Counting the words of many texts, and the same entries word by word."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kshot.index.arrays import Array, Ints

_CHUNK_WORDS = 1 << 20
"""Words counted at a time: the numbers of all words of a large corpus never stand in memory together."""


class WordCounts(NamedTuple):
    """How often each word stands in each text: an entry for each pair that occurs.

    Entries are in the order of texts, and within a text in the order of word numbers. Words are numbered in the order
    in which they first appear.
    """

    vocabulary: dict[str, int]
    texts: Array
    words: Array
    counts: Array
    lengths: Ints
    """How many words each text has."""

    @property
    def document_frequencies(self) -> Ints:
        """In how many texts each word stands."""
        return np.bincount(self.words, minlength=len(self.vocabulary))

    @property
    def average_length(self) -> float:
        """The mean number of words in a text."""
        return average_length(self.lengths)


def average_length(lengths: Ints) -> float:
    """Return the mean number of words in a text."""
    return float(lengths.sum() / max(len(lengths), 1))


class Postings(NamedTuple):
    """The entries word by word: word ``w`` has entries ``starts[w]`` to ``starts[w + 1]``, its texts ascending."""

    texts: Array
    weights: Array
    starts: Ints

    def of(self, word: int) -> slice:
        """Return where the entries of a word stand."""
        return slice(int(self.starts[word]), int(self.starts[word + 1]))


def count_words(texts: Iterable[Sequence[str]]) -> WordCounts:
    """Count the words of texts that are given as lists of words."""
    vocabulary: dict[str, int] = {}
    lengths = array("q")
    parts: list[tuple[Array, Array, Array]] = []
    numbers: list[int] = []
    first = 0
    for text in texts:
        try:
            numbers += [vocabulary[word] for word in text]
        except KeyError:  # a new word: rare after the first texts
            numbers += [vocabulary.setdefault(word, len(vocabulary)) for word in text]
        lengths.append(len(text))
        if len(numbers) >= _CHUNK_WORDS:
            parts.append(_counted(numbers, lengths[first:], first, len(vocabulary)))
            numbers, first = [], len(lengths)
    parts.append(_counted(numbers, lengths[first:], first, len(vocabulary)))
    texts_of, words_of, counts_of = (np.concatenate([part[at] for part in parts]) for at in range(3))
    return WordCounts(vocabulary, texts_of, words_of, counts_of, np.asarray(lengths, dtype=np.int64))


def _counted(numbers: list[int], lengths: Sequence[int], first: int, words: int) -> tuple[Array, Array, Array]:
    """Count the words of one chunk, whose first text has the number ``first``."""
    rows = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    keys, counts = np.unique(rows * words + np.asarray(numbers, dtype=np.int64), return_counts=True)
    texts, held = np.divmod(keys, max(words, 1))
    return (texts + first).astype(np.int32), held.astype(np.int32), counts.astype(np.int32)


def by_word(counts: WordCounts, weights: Array) -> Postings:
    """Put the entries, each with its weight, into the order of words."""
    order = np.argsort(counts.words, kind="stable")
    starts = np.zeros(len(counts.vocabulary) + 1, dtype=np.int64)
    np.cumsum(counts.document_frequencies, out=starts[1:])
    return Postings(counts.texts[order], weights[order], starts)
