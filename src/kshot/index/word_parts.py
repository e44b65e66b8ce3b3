"""The words of a part of the texts, counted by themselves, and all parts together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from kshot.index.arrays import Array, Ints
from kshot.index.postings import by_word, count_words
from kshot.index.words import Words

WordPart: TypeAlias = Mapping[str, Array]
"""The counted words of some texts, as ``word_part`` gives them."""


@dataclass(frozen=True, slots=True)
class CountWords:
    """Counts the words of texts; see ``Words`` for the options."""

    stem: str
    stopwords: str

    def open(self) -> Callable[[Sequence[str]], WordPart]:
        """Return what counts the words of a shard."""
        return partial(_counted, Words(self.stem, self.stopwords))


def _counted(words: Words, texts: Sequence[str]) -> WordPart:
    return word_part(map(words, texts))


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
            own = np.asarray([number(word, len(self.vocabulary)) for word in _words(part)], dtype=np.int32)
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


def _words(part: WordPart) -> list[str]:
    text = part["words"].tobytes().decode("utf-8", "surrogatepass")
    return text.split("\n") if text else []
