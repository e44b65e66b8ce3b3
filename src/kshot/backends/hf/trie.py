"""Token sequences as one trie, laid out depth first: every distinct prefix is in it once.

The layout has three numbers for each token: its id, its depth (which is its position), and ``end``, the place where
its subtree ends. A place is an index into the layout. Token j is an ancestor of token i exactly when
``j <= i < end[j]``, so an attention mask takes one comparison.
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
IdArray: TypeAlias = NDArray[np.int32]
"""Token ids."""

_SHARING_DIVISOR = 4
"""A prefix that a quarter of all sequences begin with is likely to come again."""
_MIN_PREFIX_TOKENS = 16
"""Shorter prefixes are computed again rather than cached."""
_SAME_PREFIX_SHARE = 0.9
"""Two prefixes that have this share of their tokens in common count as one."""
_MAX_COUNTED_NODES = 1 << 22
"""Distinct tokens are counted exactly up to this many (8 bytes each)."""
_MAX_UNCOUNTED_NODES = 1 << 18
"""Tokens that may wait to be counted; counting them takes about 20 ms."""


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """A sequence to run, and the depth from which its predictions are wanted."""

    tokens: IdArray
    first_wanted: int


@dataclass(slots=True)
class Trie:
    """Sequences laid out depth first.

    ``nodes[i]`` are the places that sequence i wants, first to last. ``shared_prefixes`` are those that many sequences
    begin with, each with the place of its last token. ``cached_nodes[k]`` are the places of the k-th cached prefix.
    ``plan_tree_batches`` moves small trees to the end, as rows of batches: ``row_edges`` are where these rows begin
    and end, ``width`` is their common width (0: each has its own), ``common_length`` is the number of tokens that all
    sequences begin with. ``cut_into_blocks`` has the places before ``blocks_end`` computed in blocks.
    """

    tokens: Ints
    depths: Ints
    ends: Ints
    nodes: list[Ints]
    shared_prefixes: list[tuple[IdArray, int]]
    cached_nodes: list[Ints]
    hashes: NDArray[np.uint64]
    row_edges: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    width: int = 0
    common_length: int = 0
    blocks_end: int = 0

    def __len__(self) -> int:
        return len(self.tokens)


def common_prefix_length(left: IdArray, right: IdArray) -> int:
    """Return the length of the common prefix of two sequences."""
    size = min(len(left), len(right))
    unequal = left[:size] != right[:size]
    place = int(unequal.argmax()) if size else 0
    return place if size and unequal[place] else size


def common_length(trie: Trie) -> int:
    """Return how many tokens all sequences of a trie begin with."""
    whole = trie.ends == len(trie)
    return len(trie) if whole.all() else int(whole.argmin())


def is_near_duplicate(prefix: IdArray, others: Iterable[IdArray]) -> bool:
    """Whether one of the other prefixes begins with nearly all tokens of this one."""
    return any(common_prefix_length(prefix, other) >= len(prefix) * _SAME_PREFIX_SHARE for other in others)


def build_trie(sequences: Sequence[TokenSequence], cached: Sequence[IdArray] = ()) -> Trie:
    """Lay the sequences out, and find the places of the ``cached`` prefixes as far as they are in the trie."""
    keys = [sequence.tokens.tobytes() for sequence in sequences]
    order = sorted(range(len(sequences)), key=keys.__getitem__)
    ordered = [sequences[index].tokens for index in order]
    shared = [0, *(common_prefix_length(left, right) for left, right in pairwise(ordered))]
    cached_at = _find_cached([keys[index] for index in order], ordered, cached)
    ids = np.concatenate([tokens[depth:] for tokens, depth in zip(ordered, shared, strict=True)])
    edges = np.cumsum([0, *map(len, ordered)]) - np.cumsum([0, *shared])
    depths = np.arange(len(ids)) - np.repeat(edges[:-1] - shared, np.diff(edges))
    powers = np.cumprod(np.full(max(map(len, ordered)), 0x5851F42D4C957F2D, np.uint64), dtype=np.uint64)
    sums = (_hash_tokens(ids) * powers[depths]).cumsum(dtype=np.uint64)
    hashes, ends = sums.copy(), np.zeros(len(ids), np.int64)
    path = np.zeros(max(map(len, ordered)), np.int64)
    nodes: list[Ints] = [path[:0]] * len(sequences)
    cached_nodes: list[Ints] = [path[:0]] * len(cached)
    prefix_lengths, shared_prefixes = _shared_prefixes(ordered, shared), []
    previous = 0
    for at, (index, depth, (place, last)) in enumerate(zip(order, shared, pairwise(edges.tolist()), strict=True)):
        length = depth + last - place
        if depth < previous:
            ends[path[depth:previous]] = place
        if place < last:
            path[depth:length] = np.arange(place, last)
            # A node's hash is a running sum over its path, so the same path has the same hash in any trie.
            if place:
                hashes[place:last] -= sums[place - 1]
            if depth:
                hashes[place:last] += hashes[path[depth - 1]]
        nodes[index] = path[sequences[index].first_wanted : length].copy()
        for which, count in cached_at.get(at, ()):
            cached_nodes[which] = path[:count].copy()
        if count := prefix_lengths.get(at, 0):
            shared_prefixes.append((ordered[at][:count], int(path[count - 1])))
        previous = length
    ends[path[:previous]] = len(ids)
    return Trie(ids.astype(np.int64), depths, ends, nodes, shared_prefixes, cached_nodes, hashes)


def _find_cached(
    keys: Sequence[bytes], ordered: Sequence[IdArray], cached: Sequence[IdArray]
) -> dict[int, list[tuple[int, int]]]:
    """Find the sorted sequence that has most of each cached prefix: its index → (which prefix, how many tokens)."""
    found: dict[int, list[tuple[int, int]]] = {}
    for which, tokens in enumerate(cached):
        at = bisect_left(keys, tokens.tobytes())
        neighbours = [
            (common_prefix_length(tokens, ordered[index]), index) for index in (at - 1, at) if 0 <= index < len(ordered)
        ]
        count, index = max(neighbours, default=(0, 0))
        if count >= _MIN_PREFIX_TOKENS:
            found.setdefault(index, []).append((which, count))
    return found


def _shared_prefixes(ordered: Sequence[IdArray], shared: Sequence[int]) -> dict[int, int]:
    """Find the longest prefixes that many sequences begin with: the index of a sequence that has one → its length.

    ``min(shared[at + 1 : at + count])`` is the length of what ``count`` neighbours have in common.
    """
    count = max(len(ordered) // _SHARING_DIVISOR, 2)
    found: dict[int, int] = {}
    for at in range(0, len(ordered) - count + 1, max(count // 2, 1)):
        length = min(shared[at + 1 : at + count])
        if length < _MIN_PREFIX_TOKENS:
            continue
        if not is_near_duplicate(ordered[at][:length], (ordered[other][:size] for other, size in found.items())):
            found[at] = length
    return found


def _hash_tokens(tokens: IdArray) -> NDArray[np.uint64]:
    """Spread token ids over 64 bits (splitmix64)."""
    mixed: NDArray[np.uint64] = (tokens.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    return mixed


@dataclass(slots=True)
class TokenCounts:
    """Tokens of a run.

    ``requested``: every request read by itself. ``distinct``: the nodes of the trie of the whole run. ``computed``:
    what went through the model.
    """

    requested: int = 0
    distinct: int = 0
    computed: int = 0

    def __str__(self) -> str:
        if self.computed < self.requested:
            return f"read {self.computed:,} tokens instead of {self.requested:,}: beginnings that prompts share, once"
        return f"read {self.computed:,} tokens; the requests have {self.requested:,}"


class NodeCounter:
    """Counts the distinct nodes of a run's tries: a node that comes again in a later trie is not counted again."""

    def __init__(self) -> None:
        self._count = 0
        self._hashes: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._uncounted: list[NDArray[np.uint64]] = []

    def add(self, hashes: NDArray[np.uint64]) -> None:
        """Take the nodes of a trie. They are counted later, many at a time: a GPU waits for the first row now."""
        self._uncounted.append(hashes)
        if sum(map(len, self._uncounted)) >= _MAX_UNCOUNTED_NODES:
            self._count_new()

    @property
    def count(self) -> int:
        """The number of distinct nodes so far. Once the table is full, nodes outside of it always count as new."""
        self._count_new()
        return self._count

    def _count_new(self) -> None:
        given = np.unique(np.concatenate([self._hashes[:0], *self._uncounted]))
        self._uncounted.clear()
        new = given[~contains(self._hashes, given)]
        self._count += len(new)
        if len(new) and len(self._hashes) < _MAX_COUNTED_NODES:
            # The table stays sorted. A stable sort merges two sorted runs in one pass.
            self._hashes = np.sort(np.concatenate([self._hashes, new]), kind="stable")


def contains(ordered: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each value whether it is in a sorted array; ``numpy.isin`` would sort the array again."""
    if not len(ordered):
        return np.zeros(len(wanted), bool)
    found: NDArray[np.bool_] = ordered[np.minimum(ordered.searchsorted(wanted), len(ordered) - 1)] == wanted
    return found
