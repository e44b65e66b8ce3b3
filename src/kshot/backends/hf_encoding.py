"""Encoding texts that begin alike: the shared text once, the rest by itself, the seam checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ids: TypeAlias = NDArray[np.int32]

_OVERLAP = 24
"""Tokens before the end of the shared text that are encoded again, to find the seam in."""
_AGREEING = 8
"""Tokens after the seam that must come out the same in both: then what lies further left has no say."""
_CHECKED = 64
"""One in so many is encoded whole as well (and every one whose number is a power of two)."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text, its tokens, and where in the text each of them ends."""

    text: str
    ids: Ids
    ends: NDArray[np.int64]


class Encoder:
    """A function from text to tokens, spared what it has seen already.

    Tokenizers decide locally: a token depends on the word it is in and on what stands next to that. So a text that
    begins like a known one has its tokens up to some place before the difference. The seam is put where both
    encodings have a token boundary and agree on the tokens that follow; where there is none, or should a whole encoding
    ever differ, texts are encoded whole.
    """

    def __init__(self, whole: Callable[[str], Encoded]) -> None:
        self._whole = whole
        self._trusted = True
        self._count = 0

    def extended(self, known: Encoded, text: str) -> Encoded:
        """Encode a text that may begin like a known one."""
        found = self._seamed(known, text) if self._trusted else None
        if found is None:
            return self._whole(text)
        self._count += 1
        if self._count % _CHECKED == 0 or self._count & (self._count - 1) == 0:
            checked = self._whole(text)
            self._trusted = np.array_equal(checked.ids, found.ids) and np.array_equal(checked.ends, found.ends)
            return checked
        return found

    def _seamed(self, known: Encoded, text: str) -> Encoded | None:
        shared = alike(known.text, text)
        # Tokens that end before the difference, the last of them not counted: it might have gone on.
        inside = int(np.searchsorted(known.ends, shared)) - 1
        start = inside - _OVERLAP
        if start < _OVERLAP or (np.diff(known.ends) < 0).any():
            return None
        # The bytes of one character may be several tokens, which all end with it: the seam is behind the last.
        start = int(np.searchsorted(known.ends, known.ends[start], side="right"))
        edge = int(known.ends[start - 1])
        rest = self._whole(text[edge:])
        ends = rest.ends + edge
        if (np.diff(ends) < 0).any():
            return None
        for skip in range(_OVERLAP - _AGREEING):
            if skip >= len(ends):
                return None
            at = int(np.searchsorted(ends, ends[skip], side="right"))
            seam = int(np.searchsorted(known.ends, ends[skip], side="right"))
            if seam == 0 or known.ends[seam - 1] != ends[skip]:
                continue
            both = slice(at, at + _AGREEING), slice(seam, seam + _AGREEING)
            same = np.array_equal(rest.ids[both[0]], known.ids[both[1]])
            if same and np.array_equal(ends[both[0]], known.ends[both[1]]) and seam + _AGREEING <= inside:
                ids = np.concatenate([known.ids[:seam], rest.ids[at:]])
                return Encoded(text, ids, np.concatenate([known.ends[:seam], ends[at:]]))
        return None


def alike(left: str, right: str) -> int:
    """Length of the common prefix of two texts."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
