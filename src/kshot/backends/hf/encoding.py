"""Encoding texts that begin alike: the shared beginning once, the remainder by itself, the seam checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kshot.backends.hf.trie import IdArray

_OVERLAP_TOKENS = 24
"""Tokens before the end of the shared text that are encoded again; the seam is searched among them."""
_MATCHING_TOKENS = 8
"""Tokens after the seam that both encodings must have in common; then the text further left has no influence."""
_CHECK_INTERVAL = 64
"""One text in this many is encoded whole as well (and every one whose number is a power of two)."""


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A text, its tokens, and where in the text each token ends. ``in_order``: no token ends before an earlier one."""

    text: str
    ids: IdArray
    ends: NDArray[np.int64]
    in_order: bool

    @classmethod
    def of(cls, text: str, ids: IdArray, ends: NDArray[np.int64]) -> EncodedText:
        """Return an encoded text, and find out whether its tokens are in order."""
        return cls(text, ids, ends, not (ends[1:] < ends[:-1]).any())


class IncrementalEncoder:
    """Encodes texts, and reuses the tokens of a known text that begins alike.

    Tokenizers decide locally: a token depends on the word that it is in and on the characters beside that word. A text
    that begins like a known one therefore has the same tokens up to some place before the difference. The seam goes
    where both encodings have a token boundary and agree on the tokens after it. Where there is no such place, the text
    is encoded whole. Should a whole encoding ever differ from a joined one, all texts are encoded whole from then on.
    Without ``reuse`` they all are from the start, and no text depends on another.
    """

    def __init__(self, encode_whole: Callable[[Sequence[str]], list[EncodedText]], *, reuse: bool = True) -> None:
        self._encode_whole = encode_whole
        self._reuse_is_safe = reuse
        self._count = 0

    def encode(self, pairs: Sequence[tuple[EncodedText, str]]) -> list[EncodedText]:
        """Encode texts, each paired with a known text that it may begin like.

        Texts are handed to the tokenizer together, because it has threads.
        """
        cuts = [_reusable_part(known, text) if self._reuse_is_safe else None for known, text in pairs]
        tails = [text[cut[1] :] for cut, (_, text) in zip(cuts, pairs, strict=True) if cut]
        encoded_tails = iter(self._encode_whole(tails) if tails else ())
        found = [
            _join(known, text, cut, next(encoded_tails)) if cut else None
            for cut, (known, text) in zip(cuts, pairs, strict=True)
        ]
        checked = [at for at, joined in enumerate(found) if joined is None or self._check_is_due()]
        wholes = self._encode_whole([pairs[at][1] for at in checked]) if checked else ()
        for at, whole in zip(checked, wholes, strict=True):
            if (joined := found[at]) is not None:
                self._reuse_is_safe &= np.array_equal(whole.ids, joined.ids) and np.array_equal(whole.ends, joined.ends)
            found[at] = whole
        if not self._reuse_is_safe and tails:
            return self._encode_whole([text for _, text in pairs])
        return [encoded for encoded in found if encoded is not None]

    def _check_is_due(self) -> bool:
        self._count += 1
        return self._count % _CHECK_INTERVAL == 0 or self._count & (self._count - 1) == 0


_ReusablePart: TypeAlias = tuple[int, int]
"""The number of tokens that are surely the same, and the character from which the text is encoded again."""


def _reusable_part(known: EncodedText, text: str) -> _ReusablePart | None:
    shared = common_text_length(known.text, text)
    # Tokens that end before the difference, without the last of them: it might have gone on.
    inside = int(known.ends.searchsorted(shared)) - 1
    start = inside - _OVERLAP_TOKENS
    if start < _OVERLAP_TOKENS or not known.in_order:
        return None
    # The bytes of one character may be several tokens that all end with it: the seam is behind the last of them.
    start = int(known.ends.searchsorted(known.ends[start], side="right"))
    return inside, int(known.ends[start - 1])


def _join(known: EncodedText, text: str, part: _ReusablePart, tail: EncodedText) -> EncodedText | None:
    if not tail.in_order:
        return None
    inside, start = part
    ends = tail.ends + start
    for end in ends[: _OVERLAP_TOKENS - _MATCHING_TOKENS].tolist():
        seam = int(known.ends.searchsorted(end, side="right"))
        if seam == 0 or known.ends[seam - 1] != end or seam + _MATCHING_TOKENS > inside:
            continue
        at = int(ends.searchsorted(end, side="right"))
        if _same_bytes(tail.ids, at, known.ids, seam) and _same_bytes(ends, at, known.ends, seam):
            ids = np.concatenate([known.ids[:seam], tail.ids[at:]])
            return EncodedText(text, ids, np.concatenate([known.ends[:seam], ends[at:]]), in_order=True)
    return None


def _same_bytes(left: NDArray[Any], at: int, right: NDArray[Any], seam: int) -> bool:
    """Whether the tokens after the seam match. For so few, this takes a tenth of the time of ``array_equal``."""
    return left[at : at + _MATCHING_TOKENS].tobytes() == right[seam : seam + _MATCHING_TOKENS].tobytes()


def first_after(encoded: EncodedText, place: int) -> int:
    """Return the index of the first token that ends after a place of the text; if none does, the number of tokens."""
    if encoded.in_order:
        return int(encoded.ends.searchsorted(place, side="right"))
    return int(np.append(encoded.ends > place, True).argmax())


def common_text_length(left: str, right: str) -> int:
    """Return the length of the common prefix of two texts."""
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
