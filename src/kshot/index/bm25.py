"""BM25: the weight of each word in each text, and the texts with the highest score for a query.

Example retrievers and search engines use the same weights. ``Bm25Index`` keeps them in files that are mapped into
memory, as the package bm25s lays them out and with bm25s's scores to the last digit; ``Bm25BatchIndex`` searches for
many queries at once, and decides in double precision.
"""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kshot.core.errors import BadValue
from kshot.index import ranking
from kshot.index.ranking import Array, Doubles, Floats, Found, Ints, Positions, best, best_columns, row_blocks
from kshot.index.store import damaged
from kshot.index.words import Words

# ---- the words of many texts, counted, and the same entries word by word ----

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


# ---- weights ----

Bm25Method: TypeAlias = Literal["lucene", "robertson", "atire", "bm25l", "bm25+", "okapi"]

_DELTA = 0.5
"""What ``bm25l`` and ``bm25+`` add to a word's share."""
_CHUNK_ENTRIES = 1 << 20
_LONG_QUERY_WORDS = 1000
_FORMAT_VERSION = "0.3.16"
"""The version of bm25s whose files these are."""


@dataclass(frozen=True, slots=True)
class Bm25Formula:
    """The weight of a word in a text: ``idf · share``.

    ``lucene``: ``idf = ln(1 + (N - df + ½) / (df + ½))`` and ``share = tf / (tf + k1 · norm)``, with ``norm = 1 - b +
    b · length / average``. ``robertson``: ``idf = ln((N - df + ½) / (df + ½))``, at least 0, and the same share.
    ``okapi``, as the package rank_bm25 has it: robertson's idf, but a negative one becomes a quarter of the mean, and
    shares are ``k1 + 1`` times as large. ``atire``, ``bm25l`` and ``bm25+`` are those of the package bm25s; the last
    two give every text a constant that depends on the query alone, which is left out.
    """

    method: Bm25Method = "lucene"
    k1: float = 1.5
    b: float = 0.75

    def __post_init__(self) -> None:
        """Refuse impossible constants."""
        if not (math.isfinite(self.k1) and self.k1 >= 0 and 0 <= self.b <= 1):
            raise BadValue(f"k1 is {self.k1} and b is {self.b}; k1 must be 0 or more, and b from 0 to 1")

    def idf(self, frequencies: Ints, texts: int) -> Doubles:
        """Return the idf of words from their document frequencies and the number of texts."""
        if not len(frequencies):
            return np.zeros(0)
        each, inverse = np.unique(frequencies, return_inverse=True)
        odds = (texts - each + 0.5) / (each + 0.5)
        match self.method:
            case "lucene":
                inner = 1 + odds
            case "robertson":
                inner = np.maximum(odds, 1)
            case "atire":
                inner = texts / each
            case "bm25l":
                inner = (texts + 1) / (each + 0.5)
            case "bm25+":
                inner = (texts + 1) / each
            case "okapi":
                inner = odds
        # math.log and not np.log, whose last bit depends on the machine
        idf: Doubles = np.asarray([math.log(value) for value in inner.tolist()])[inverse]
        return np.where(idf < 0, 0.25 * idf.mean(), idf) if self.method == "okapi" else idf

    def share(self, tf: Array, norm: Array) -> Array:
        """Return what a word counts that stands ``tf`` times in a text of this relative length.

        The order of operations is bm25s's, which decides the last bit where ``tf`` is float32.
        """
        match self.method:
            case "lucene" | "robertson":
                return tf / (self.k1 * norm + tf)
            case "atire" | "okapi":
                return (tf * (self.k1 + 1)) / (tf + self.k1 * norm)
            case "bm25l":
                scaled = tf / norm
                return ((self.k1 + 1) * (scaled + _DELTA)) / (self.k1 + scaled + _DELTA)
            case "bm25+":
                return ((self.k1 + 1) * tf) / (self.k1 * norm + tf) + _DELTA

    def constants(self, idf: Doubles) -> Doubles | None:
        """Return what each word gives to a text of average length that does not hold it, if the method gives any."""
        match self.method:
            case "bm25l":
                return idf * (((self.k1 + 1) * _DELTA) / (self.k1 + _DELTA))
            case "bm25+":
                return idf * _DELTA
        return None

    def weights(self, counts: WordCounts, precision: npt.DTypeLike) -> Array:
        """Return the weight of each entry of the counts; frequencies and idf are in this precision."""
        weigh = EntryWeights(self, counts.document_frequencies, counts.lengths, precision)
        return weigh(counts.words, counts.counts, counts.texts)


class EntryWeights:
    """The weights of words in texts; frequencies and idf are in this precision."""

    def __init__(
        self, formula: Bm25Formula, document_frequencies: Ints, lengths: Ints, precision: npt.DTypeLike
    ) -> None:
        """Take in how many texts each word stands, and how many words each text has."""
        self._formula, self._precision = formula, precision
        exact = formula.idf(document_frequencies, len(lengths))
        constants = formula.constants(exact)
        self._idf = exact.astype(precision)
        self.constants = None if constants is None else constants.astype(precision)
        self._norm = (1 - formula.b) + formula.b * lengths / (average_length(lengths) or 1.0)

    def __call__(self, words: Array, counts: Array, texts: Array) -> Array:
        """Return the weight of each entry: a word that stands so often in a text."""
        found = np.empty(len(counts), dtype=self._precision)
        for start in range(0, len(found), _CHUNK_ENTRIES):
            part = slice(start, start + _CHUNK_ENTRIES)
            shares = self._formula.share(counts[part].astype(self._precision), self._norm[texts[part]])
            weights = self._idf[words[part]] * shares
            found[part] = weights if self.constants is None else weights - self.constants[words[part]]
        return found


class Bm25Index:
    """Weights by word, searched with an array of scores that is cleared where it was written.

    That way a query costs as much as the texts that hold its words, not as much as the corpus. A text with score 0 is
    not found.
    """

    def __init__(self, vocabulary: dict[str, int], postings: Postings, size: int) -> None:
        """Take the words with their numbers, the entries of each, and the number of texts."""
        self.vocabulary, self._postings, self._size = vocabulary, postings, size
        self._starts: list[int] = postings.starts.tolist()
        if len(self._starts) != len(vocabulary) + 1 or self._starts[-1] != len(postings.weights):
            raise ValueError("its files do not fit together")

    @cached_property
    def _scores(self) -> Array:
        return np.zeros(self._size, dtype=self._postings.weights.dtype)

    def search(self, queries: Sequence[Sequence[str]], k: int, among: Sequence[int] | None = None) -> list[Found]:
        """Return the ``k`` best texts for each query (a list of words), among these positions (ascending) or all."""
        allowed = None if among is None else np.asarray(among, dtype=np.intp)
        number = self.vocabulary.get
        return [self._one([at for word in query if (at := number(word)) is not None], k, allowed) for query in queries]

    def _one(self, query: Sequence[int], k: int, allowed: Positions | None) -> Found:
        if not query:
            return Found((), ())
        (all_texts, all_weights, _), scores, touched = self._postings, self._scores, []
        # a word twice counts twice; the words of a very long query are counted first, which rounds differently
        times = Counter(query).items() if len(query) > _LONG_QUERY_WORDS else ((word, 1) for word in query)
        for word, count in times:
            span = slice(self._starts[word], self._starts[word + 1])
            texts, weights = all_texts[span], all_weights[span]
            scores[texts] += weights if count == 1 else weights * count  # each text stands there once
            touched.append(texts)
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
            for texts in touched:
                scores[texts] = 0
        return found


def _shortlist(scores: Array, touched: Sequence[Array], k: int) -> tuple[Array, int, Array]:
    """Return the scores and positions of few texts among which the best ``k`` are.

    With n words a text is touched up to n times, so the best n · k entries hold the best k texts.
    """
    texts = np.concatenate(touched) if len(touched) > 1 else touched[0]
    entries = len(touched) * k
    if len(texts) > entries:
        values = scores[texts]
        texts = texts[values >= np.partition(values, len(values) - entries)[len(values) - entries]]
    texts = np.unique(texts)
    return scores[texts], k, texts


def _positive(scores: Array, k: int, positions: Array | None) -> Found:
    """Return the best, without those that hold no word of the query."""
    found = best(scores, k, positions)
    if found.scores and found.scores[-1] <= 0:
        count = next(at for at, score in enumerate(found.scores) if score <= 0)
        return Found(found.positions[:count], found.scores[:count])
    return found


# ---- files, as the package bm25s writes and reads them ----

_VOCABULARY, _PARAMETERS, _CONSTANTS = "vocab.index.json", "params.index.json", "nonoccurrence_array.index.npy"
_TEXTS, _WEIGHTS, _STARTS = "indices.csc.index.npy", "data.csc.index.npy", "indptr.csc.index.npy"


def save_bm25(folder: Path, parts: Iterable[WordPart], formula: Bm25Formula) -> None:
    """Write the weights of texts, whose counted words come in parts, into a folder; without any word it stays empty.

    Parts are read twice, one at a time, and weights go to mapped files, so that memory holds no more than a part, the
    words, and two numbers for each of them and one for each text.
    """
    words = JoinedWords(parts)
    if not words.vocabulary:
        return
    weigh = EntryWeights(formula, words.document_frequencies, words.lengths, np.float32)
    starts = words.starts
    texts, weights = (
        np.lib.format.open_memmap(folder / name, "w+", dtype, (int(starts[-1]),))
        for name, dtype in ((_TEXTS, np.int32), (_WEIGHTS, np.float32))
    )
    for places, entry_words, entry_texts, counts in words.entries(parts):
        texts[places] = entry_texts
        weights[places] = weigh(entry_words, counts, entry_texts)
    texts.flush()
    weights.flush()
    np.save(folder / _STARTS, starts)
    if weigh.constants is not None:
        np.save(folder / _CONSTANTS, weigh.constants)
    (folder / _VOCABULARY).write_text(json.dumps(words.vocabulary, ensure_ascii=False), encoding="utf-8")
    parameters = {
        "k1": formula.k1,
        "b": formula.b,
        "delta": _DELTA,
        "method": formula.method,
        "idf_method": formula.method,
        "dtype": "float32",
        "int_dtype": "int32",
        "num_docs": len(words.lengths),
        "version": _FORMAT_VERSION,
        "backend": "numpy",
    }
    (folder / _PARAMETERS).write_text(json.dumps(parameters, indent=4), encoding="utf-8")


def load_bm25(folder: Path, size: int) -> Bm25Index:
    """Open the index that ``save_bm25`` wrote for ``size`` texts."""
    if not (folder / _PARAMETERS).exists():  # no text had a word
        empty = Postings(np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(1, np.int64))
        return Bm25Index({}, empty, size)
    try:
        vocabulary = json.loads((folder / _VOCABULARY).read_text("utf-8"))
        # plain views of the mapped files: a slice of an np.memmap costs several times as much
        arrays = [np.asarray(np.load(folder / name, mmap_mode="r")) for name in (_TEXTS, _WEIGHTS, _STARTS)]
        return Bm25Index(vocabulary, Postings(*arrays), size)
    except (OSError, ValueError, TypeError, EOFError) as exc:
        raise damaged(folder, exc) from exc


_FLOOR_SHARE = 0.25
"""A word in more than half of the texts has this share of the mean idf instead of its own, which is negative."""


class OkapiScores:
    """BM25 scores of all texts, given as lists of words, for one query at a time, as ``rank_bm25.BM25Okapi`` has them.

    OpenCompass ranks examples by them, and a last bit decides between rows that score alike. So each operation is in
    the package's order and in its precision; only the texts that do not hold a word are skipped, to which it adds 0.
    """

    def __init__(self, texts: Iterable[Sequence[str]], k1: float = 1.5, b: float = 0.75) -> None:
        """Count the words of each text."""
        counts = count_words(texts)
        self._vocabulary, self._size, self._k1 = counts.vocabulary, len(counts.lengths), k1
        self._postings = by_word(counts, counts.counts.astype(np.float64))
        self._idf = self._floored(counts.document_frequencies.tolist())
        average = average_length(counts.lengths) or 1.0
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


DENSE_SHARE = 0.1
"""Words in more than this share of the texts are summed as a matrix product, the others entry by entry."""


# ---- many queries at once: common words as a matrix product ----


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
