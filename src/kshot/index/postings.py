"""Counting the words of many texts, and the same entries word by word."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from kshot.index.ranking import Array, Ints
from kshot.index.words import Words

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


# ---- the words of a part of the texts, counted by themselves, and all parts together ----

WordPart: TypeAlias = Mapping[str, Array]
"""The counted words of some texts, as ``word_part`` gives them."""


@dataclass(frozen=True, slots=True)
class CountWords:
    """Counts the words of texts; see ``Words`` for the options."""

    stem: str
    stopwords: str

    def open(self) -> Callable[[Sequence[str]], WordPart]:
        """Return what counts the words of a shard."""
        words = Words(self.stem, self.stopwords)
        return lambda texts: word_part(map(words, texts))


def word_part(texts: Iterable[Sequence[str]]) -> WordPart:
    """Count the words of texts that are given as lists of words.

    ``words`` are those that occur, as UTF-8 with line breaks between them, in the order in which they first appear.
    Entries stand word by word, ``frequencies`` of them for each word: the number of a text in ``texts``, ascending, and
    how often the word stands there in ``counts``. ``lengths`` says how many words each text has.
    """
    counts = count_words(texts)
    postings = by_word(counts, counts.counts)
    return {
        "words": np.frombuffer("\n".join(counts.vocabulary).encode("utf-8", "surrogatepass"), dtype=np.uint8),
        "frequencies": np.diff(postings.starts),
        "texts": postings.texts,
        "counts": postings.weights,
        "lengths": counts.lengths,
    }


class JoinedWords:
    """The words of all parts, numbered in the order in which they first appear, as if all were counted at once."""

    def __init__(self, parts: Iterable[WordPart]) -> None:
        """Read the words of each part, not its entries."""
        self.vocabulary: dict[str, int] = {}
        self._numbers: list[Array] = []  # of each part's words
        frequencies = np.zeros(0, dtype=np.int64)
        lengths = [np.zeros(0, dtype=np.int64)]
        for part in parts:
            number = self.vocabulary.setdefault
            text = part["words"].tobytes().decode("utf-8", "surrogatepass")
            own = np.asarray([number(word, len(self.vocabulary)) for word in text.split("\n") if text], dtype=np.int32)
            more = len(self.vocabulary) - len(frequencies)
            frequencies = np.concatenate((frequencies, np.zeros(more, dtype=np.int64)))
            frequencies[own] += part["frequencies"]
            self._numbers.append(own)
            lengths.append(part["lengths"])
        self.document_frequencies: Ints = frequencies
        self.lengths: Ints = np.concatenate(lengths)

    @property
    def starts(self) -> Ints:
        """Where the entries of each word begin, and the number of all entries."""
        starts = np.zeros(len(self.vocabulary) + 1, dtype=np.int64)
        np.cumsum(self.document_frequencies, out=starts[1:])
        return starts

    def entries(self, parts: Iterable[WordPart]) -> Iterator[tuple[Ints, Array, Array, Array]]:
        """Yield the entries of each part: their places among all, word by word; their words, texts and counts."""
        free = self.starts[:-1]
        first = 0
        for own, part in zip(self._numbers, parts, strict=True):
            frequencies = part["frequencies"]
            before = np.cumsum(frequencies) - frequencies
            places = np.arange(int(frequencies.sum())) + np.repeat(free[own] - before, frequencies)
            yield places, np.repeat(own, frequencies), part["texts"] + np.int32(first), part["counts"]
            free[own] += frequencies
            first += len(part["lengths"])
