"""Cuts a text into chunks of at most a number of tokens, at the strongest borders within reach."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from kshot.passages.counting import Tokenizer

Span: TypeAlias = tuple[int, int]
"""The positions of the first character and of the one after the last."""


def trimmed(text: str, begin: int, end: int) -> Span:
    """Return the span without white space at its ends; it is empty if there is nothing else."""
    while begin < end and text[begin].isspace():
        begin += 1
    while begin < end and text[end - 1].isspace():
        end -= 1
    return begin, end


def windows(text: str, borders: Sequence[int], size: int, overlap: int) -> Iterator[Span]:
    """Yield windows of ``size`` units that share ``overlap`` units with the one before; blank units do not count."""
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
    restart_at: Sequence[Sequence[int]] | None = None,
) -> Iterator[Span]:
    """Yield chunks of at most ``size`` tokens that end at the last border of the strongest kind within reach.

    ``kinds`` are borders, strongest kind first. Where none is within reach, the cut is between two tokens; no character
    is ever broken. A chunk begins up to ``overlap`` tokens before the end of the one before it, at the strongest border
    there (one of ``restart_at``, if given; else of ``kinds``, or between two tokens). The tokens of the text are found
    once; each chunk is then counted by itself.
    """
    packing = _Packing(text, kinds, tokenizer, size, overlap)
    starts = (*kinds, packing.tokens) if restart_at is None else restart_at
    begin, done = trimmed(text, 0, len(text))[0], 0
    while begin < packing.stop:
        end = packing.end(begin, max(begin, done))
        if end is None:  # the overlap leaves no room for anything new
            begin = trimmed(text, done, packing.stop)[0]
            continue
        yield trimmed(text, begin, end)
        done = trimmed(text, end, packing.stop)[0]
        begin = packing.next_begin(begin, end, starts) if done < packing.stop else done


class _Packing:
    """The borders and tokens of one text, and where its chunks begin and end."""

    def __init__(
        self, text: str, kinds: Sequence[Sequence[int]], tokenizer: Tokenizer, size: int, overlap: int
    ) -> None:
        self.text, self.kinds, self.tokenizer, self.size, self.overlap = text, kinds, tokenizer, size, overlap
        self.tokens = tokenizer.starts(text)
        self.stop = trimmed(text, 0, len(text))[1]

    def end(self, begin: int, after: int) -> int | None:
        """Return the end of the chunk, beyond ``after``; None if the chunk is then too long and could begin later."""
        limit = self._reach(begin)
        while limit > after:
            end = self._border(after, limit)
            first, last = trimmed(self.text, begin, end)
            if self.tokenizer.count(self.text[first:last]) <= self.size:
                return end
            # A piece by itself may have more tokens than it has within the text: cut it at its own tokens.
            limit = first + self.tokenizer.starts(self.text[first:last])[self.size]
        return begin + 1 if after == begin else None

    def next_begin(self, begin: int, end: int, starts: Sequence[Sequence[int]]) -> int:
        """Return the begin of the next chunk: after ``begin``, within the overlap before ``end``, or at ``end``."""
        first = bisect_left(self.tokens, end) - self.overlap
        earliest = max(self.tokens[first] if 0 <= first < len(self.tokens) else 0, begin + 1)
        found = end
        for kind in starts if self.overlap else ():
            at = bisect_left(kind, earliest)
            if at < len(kind) and kind[at] < end:
                found = kind[at]
                break
        return trimmed(self.text, found, self.stop)[0]

    def _reach(self, begin: int) -> int:
        """Return the end of as many tokens of the text as a chunk may have."""
        first = bisect_left(self.tokens, begin)
        if first == len(self.tokens) or self.tokens[first] > begin:  # it begins inside a token
            first = max(0, first - 1)
        after = first + self.size
        return self.tokens[after] if after < len(self.tokens) else self.stop

    def _border(self, after: int, limit: int) -> int:
        """Return the strongest border beyond ``after`` and up to ``limit``; ``limit`` itself if there is none."""
        if limit >= self.stop:
            return self.stop
        for kind in self.kinds:
            at = bisect_right(kind, limit) - 1
            if at >= 0 and kind[at] > after:
                return kind[at]
        return limit
