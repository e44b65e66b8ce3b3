"""Token sequences as one trie, laid out depth first: every distinct prefix stands there once.

The layout needs three numbers a token: its id, its depth (which is its position), and ``end``, the place where its
subtree ends. Token j is an ancestor of token i exactly where ``j <= i < end[j]``, so a mask is one comparison.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]

_SHARE = 4
"""A prefix under which a quarter of all sequences hang is likely to come again."""
_LEAST = 16
"""Prefixes shorter than this are computed again rather than kept."""
_TABLE = 1 << 22
"""Distinct tokens are told apart exactly up to this many (8 bytes each)."""


@dataclass(frozen=True, slots=True)
class Item:
    """A sequence to read, and the depth from which its predictions are wanted."""

    tokens: NDArray[np.int32]
    first: int


@dataclass(slots=True)
class Trie:
    """Sequences laid out depth first.

    ``nodes[i]`` are the places that item i wants, first to last; ``trunks`` the prefixes that many share, each with the
    place of its last token; ``known[k]`` the places of the k-th held sequence. Small trees may be set apart at the end,
    as rows of batches (``hf_forest``): ``rows`` are their edges, ``stem`` the length of what all sequences begin with.
    """

    tokens: Ints
    depths: Ints
    ends: Ints
    nodes: list[Ints]
    trunks: list[tuple[NDArray[np.int32], int]]
    known: list[Ints]
    hashes: NDArray[np.uint64]
    rows: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    width: int = 0
    stem: int = 0

    def __len__(self) -> int:
        return len(self.tokens)


def common(left: NDArray[np.int32], right: NDArray[np.int32]) -> int:
    """Length of the common prefix of two sequences."""
    size = min(len(left), len(right))
    unequal = left[:size] != right[:size]
    place = int(unequal.argmax()) if size else 0
    return place if size and unequal[place] else size


def grown(items: Sequence[Item], held: Sequence[NDArray[np.int32]] = ()) -> Trie:
    """Lay the sequences out; ``known[k]`` are the places of the sequence ``held[k]``, as far as it is in the trie."""
    keys = [item.tokens.tobytes() for item in items]
    order = sorted(range(len(items)), key=keys.__getitem__)
    ordered = [items[index].tokens for index in order]
    shared = [0, *(common(left, right) for left, right in pairwise(ordered))]
    seek = _sought([keys[index] for index in order], ordered, held)
    width = max(map(len, ordered), default=0)
    path = np.zeros(width, np.int64)
    sums = np.zeros(width + 1, np.uint64)
    powers = _powers(width)
    pieces, depths, hashes = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], [np.zeros(0, np.uint64)]
    ends = np.zeros(sum(map(len, ordered)) - sum(shared), np.int64)
    nodes: list[Ints] = [np.zeros(0, np.int64)] * len(items)
    known: list[Ints] = [np.zeros(0, np.int64)] * len(held)
    shares, trunks = _trunks(ordered, shared), []
    place, before = 0, 0
    for at, (index, tokens, depth) in enumerate(zip(order, ordered, shared, strict=True)):
        ends[path[depth:before]] = place
        added = tokens[depth:]
        path[depth : len(tokens)] = np.arange(place, place + len(added))
        # A node's hash is a running sum over its path, so that the same path has the same hash in any trie.
        sums[depth + 1 : len(tokens) + 1] = sums[depth] + (_mixed(added) * powers[depth : len(tokens)]).cumsum(
            dtype=np.uint64
        )
        pieces.append(added)
        depths.append(np.arange(depth, len(tokens)))
        hashes.append(sums[depth + 1 : len(tokens) + 1].copy())
        nodes[index] = path[items[index].first : len(tokens)].copy()
        for which, count in seek.get(at, ()):
            known[which] = path[:count].copy()
        if count := shares.get(at):
            trunks.append((tokens[:count], int(path[count - 1])))
        place, before = place + len(added), len(tokens)
    ends[path[:before]] = place
    ids = np.concatenate(pieces).astype(np.int64)
    return Trie(ids, np.concatenate(depths), ends, nodes, trunks, known, np.concatenate(hashes))


def _sought(keys: list[bytes], ordered: Sequence[Any], held: Sequence[NDArray[np.int32]]) -> dict[int, list[Any]]:
    """Where among the sorted sequences each held one lives on longest: place → (which, how far)."""
    found: dict[int, list[Any]] = {}
    for which, tokens in enumerate(held):
        at = bisect_left(keys, tokens.tobytes())
        near = [(common(tokens, ordered[one]), one) for one in (at - 1, at) if 0 <= one < len(ordered)]
        count, one = max(near, default=(0, 0))
        if count >= _LEAST:
            found.setdefault(one, []).append((which, count))
    return found


def _trunks(ordered: Sequence[Any], shared: Sequence[int]) -> dict[int, int]:
    """The deepest prefixes under which a good share of the sequences hang: a sequence that has it → its length.

    ``min(shared[at + 1 : at + count])`` is what ``count`` neighbours have in common.
    """
    count = max(len(ordered) // _SHARE, 2)
    found: dict[int, int] = {}
    for at in range(0, len(ordered) - count + 1, max(count // 2, 1)):
        length = min(shared[at + 1 : at + count])
        if length < _LEAST:
            continue
        near = [common(ordered[at][:length], ordered[other][:size]) for other, size in found.items()]
        if all(same < length * 0.9 for same in near):
            found[at] = length
    return found


def _mixed(tokens: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Spread token ids over 64 bits (splitmix64)."""
    mixed = (tokens.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(27))


def _powers(count: int) -> NDArray[np.uint64]:
    return np.cumprod(np.full(count, 0x5851F42D4C957F2D, np.uint64), dtype=np.uint64)


@dataclass(slots=True)
class Work:
    """Tokens: asked for (each request on its own), distinct (the trie of the whole run), and put through the model."""

    requested: int = 0
    distinct: int = 0
    computed: int = 0

    def __str__(self) -> str:
        return f"computed {self.computed:,} tokens of {self.requested:,} asked (trie: {self.distinct:,})"


class Seen:
    """Which nodes of the run's trie came before, so that a later helping does not count them again."""

    def __init__(self) -> None:
        self._hashes: NDArray[np.uint64] = np.zeros(0, np.uint64)

    def fresh(self, hashes: Iterable[int] | NDArray[np.uint64]) -> int:
        """How many of these nodes are new; past a bound on memory all of those not in the table are."""
        given = np.unique(np.asarray(hashes, np.uint64))
        new = given[~np.isin(given, self._hashes, assume_unique=True)]
        if len(self._hashes) < _TABLE:
            self._hashes = np.concatenate([self._hashes, new])
        return len(new)
