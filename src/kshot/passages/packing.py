"""Cut a text into chunks of at most so many tokens, at the strongest borders within reach."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from kshot.passages.counting import Tokenizer

Span = tuple[int, int]


def trimmed(text: str, begin: int, end: int) -> Span:
    """The span without white space at its ends; empty if there is nothing else."""
    while begin < end and text[begin].isspace():
        begin += 1
    while begin < end and text[end - 1].isspace():
        end -= 1
    return begin, end


def windows(text: str, borders: Sequence[int], size: int, overlap: int) -> Iterator[Span]:
    """So many whole units at a time, the last ``overlap`` of them again; units of white space do not count."""
    units = [
        (begin, end)
        for first, last in zip((0, *borders), (*borders, len(text)), strict=True)
        for begin, end in [trimmed(text, first, last)]
        if begin < end
    ]
    for first in range(0, len(units), size - overlap):
        yield units[first][0], units[min(first + size, len(units)) - 1][1]
        if first + size >= len(units):
            return


def packed(
    text: str,
    kinds: Sequence[Sequence[int]],
    tokenizer: Tokenizer,
    size: int,
    overlap: int,
    *,
    resume: Sequence[Sequence[int]] | None = None,
) -> Iterator[Span]:
    """Chunks of at most ``size`` tokens that end at the strongest kind of border within reach, then the furthest.

    ``kinds`` are borders, strongest kind first; where none is within reach the cut is between two tokens, and a
    character is never broken. A chunk begins again up to ``overlap`` tokens before the end of the one before it, at the
    strongest border there (one of ``resume``, if given; else of ``kinds``, or between two tokens). The tokens of the
    text are found once; each chunk is then counted by itself.
    """
    packing = _Packing(text, kinds, tokenizer, size, overlap)
    places = (*kinds, packing.tokens) if resume is None else resume
    begin, done = trimmed(text, 0, len(text))[0], 0
    while begin < packing.stop:
        end = packing.end(begin, max(begin, done))
        if end is None:  # the overlap leaves no room for anything new
            begin = trimmed(text, done, packing.stop)[0]
            continue
        yield trimmed(text, begin, end)
        done = trimmed(text, end, packing.stop)[0]
        begin = packing.again(begin, end, places) if done < packing.stop else done


class _Packing:
    def __init__(
        self, text: str, kinds: Sequence[Sequence[int]], tokenizer: Tokenizer, size: int, overlap: int
    ) -> None:
        self.text, self.kinds, self.tokenizer, self.size, self.overlap = text, kinds, tokenizer, size, overlap
        self.tokens = tokenizer.starts(text)
        self.stop = trimmed(text, 0, len(text))[1]

    def end(self, begin: int, least: int) -> int | None:
        """Where the chunk ends, beyond ``least``; ``None`` if that leaves it too long and it might begin later."""
        limit = self._reach(begin)
        while limit > least:
            end = self._border(least, limit)
            first, last = trimmed(self.text, begin, end)
            if self.tokenizer.count(self.text[first:last]) <= self.size:
                return end
            # By itself a piece may have more tokens than it had in the text: cut it at its own.
            limit = first + self.tokenizer.starts(self.text[first:last])[self.size]
        return begin + 1 if least == begin else None

    def again(self, begin: int, end: int, places: Sequence[Sequence[int]]) -> int:
        """Where the next chunk begins: after ``begin``, within the overlap before ``end``, or at ``end``."""
        first = bisect_left(self.tokens, end) - self.overlap
        earliest = max(self.tokens[first] if 0 <= first < len(self.tokens) else 0, begin + 1)
        found = end
        for kind in places if self.overlap else ():
            at = bisect_left(kind, earliest)
            if at < len(kind) and kind[at] < end:
                found = kind[at]
                break
        return trimmed(self.text, found, self.stop)[0]

    def _reach(self, begin: int) -> int:
        """The end of as many tokens of the text as a chunk may have."""
        first = bisect_left(self.tokens, begin)
        if first == len(self.tokens) or self.tokens[first] > begin:  # it begins inside a token
            first = max(0, first - 1)
        after = first + self.size
        return self.tokens[after] if after < len(self.tokens) else self.stop

    def _border(self, least: int, limit: int) -> int:
        if limit >= self.stop:
            return self.stop
        for kind in self.kinds:
            at = bisect_right(kind, limit) - 1
            if at >= 0 and kind[at] > least:
                return kind[at]
        return limit
