"""Encoding texts that begin alike: the shared text once, the rest by itself, the seam checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    def __init__(self, whole: Callable[[Sequence[str]], list[Encoded]]) -> None:
        self._whole = whole
        self._trusted = True
        self._count = 0

    def extended(self, pairs: Sequence[tuple[Encoded, str]]) -> list[Encoded]:
        """Encode texts, each of which may begin like a known one; all of them together, for tokenizers have threads."""
        edges = [_edge(known, text) if self._trusted else None for known, text in pairs]
        tails = [text[edge[1] :] for edge, (_, text) in zip(edges, pairs, strict=True) if edge]
        rests = iter(self._whole(tails) if tails else ())
        found = [
            _joined(known, text, edge, next(rests)) if edge else None
            for edge, (known, text) in zip(edges, pairs, strict=True)
        ]
        checked = [at for at, one in enumerate(found) if one is None or self._due()]
        for at, right in zip(checked, self._whole([pairs[at][1] for at in checked]) if checked else (), strict=True):
            if (one := found[at]) is not None:
                self._trusted &= np.array_equal(right.ids, one.ids) and np.array_equal(right.ends, one.ends)
            found[at] = right
        if not self._trusted and tails:
            return self._whole([text for _, text in pairs])
        return [one for one in found if one is not None]

    def _due(self) -> bool:
        self._count += 1
        return self._count % _CHECKED == 0 or self._count & (self._count - 1) == 0


_Edge: TypeAlias = tuple[int, int]
"""The last token that is surely the same, and the character from which the text is encoded again."""


def _edge(known: Encoded, text: str) -> _Edge | None:
    shared = alike(known.text, text)
    # Tokens that end before the difference, the last of them not counted: it might have gone on.
    inside = int(known.ends.searchsorted(shared)) - 1
    start = inside - _OVERLAP
    if start < _OVERLAP or (known.ends[1:] < known.ends[:-1]).any():
        return None
    # The bytes of one character may be several tokens, which all end with it: the seam is behind the last.
    start = int(known.ends.searchsorted(known.ends[start], side="right"))
    return inside, int(known.ends[start - 1])


def _joined(known: Encoded, text: str, edge: _Edge, rest: Encoded) -> Encoded | None:
    inside, start = edge
    ends = rest.ends + start
    if (ends[1:] < ends[:-1]).any():
        return None
    for end in ends[: _OVERLAP - _AGREEING]:
        at = int(ends.searchsorted(end, side="right"))
        seam = int(known.ends.searchsorted(end, side="right"))
        if seam == 0 or known.ends[seam - 1] != end or seam + _AGREEING > inside:
            continue
        same = (rest.ids[at : at + _AGREEING], ends[at : at + _AGREEING])
        if np.array_equal(same[0], known.ids[seam : seam + _AGREEING]) and np.array_equal(
            same[1], known.ends[seam : seam + _AGREEING]
        ):
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
