"""Token sequences as one trie, laid out depth first; it is divided into rows, batches of small trees, or blocks.

The layout has three numbers for each token: its id, its depth (which is its position), and ``end``, the place where
its subtree ends. A place is an index into the layout. Token j is an ancestor of token i exactly when
``j <= i < end[j]``, so an attention mask takes one comparison.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

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
    ends = np.zeros(len(ids), np.int64)
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
        nodes[index] = path[sequences[index].first_wanted : length].copy()
        for which, count in cached_at.get(at, ()):
            cached_nodes[which] = path[:count].copy()
        if count := prefix_lengths.get(at, 0):
            shared_prefixes.append((ordered[at][:count], int(path[count - 1])))
        previous = length
    ends[path[:previous]] = len(ids)
    return Trie(ids.astype(np.int64), depths, ends, nodes, shared_prefixes, cached_nodes)


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


class TokenCounts(NamedTuple):
    """Tokens of a run: those of all requests, each read by itself, and those that went through the model."""

    requested: int = 0
    computed: int = 0

    def __str__(self) -> str:
        if self.computed < self.requested:
            return f"read {self.computed:,} tokens instead of {self.requested:,}: beginnings that prompts share, once"
        return f"read {self.computed:,} tokens; the requests have {self.requested:,}"


def contains(ordered: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each value whether it is in a sorted array; ``numpy.isin`` would sort the array again."""
    if not len(ordered):
        return np.zeros(len(wanted), bool)
    found: NDArray[np.bool_] = ordered[np.minimum(ordered.searchsorted(wanted), len(ordered) - 1)] == wanted
    return found


# ---- how many tokens go through a model at a time: equal runs make equal rows ----

_CPU_ROW_TOKENS, _GPU_ROW_TOKENS = 256, 2048
"""The mask and the attention grow with the row, the number of calls falls. Measured by `benchmarks/scoring.py`."""
_CPU_BATCH_TOKENS, _GPU_BATCH_TOKENS = 1024, 8192
"""The attention of a batch of small trees does not grow with the batch."""
_CPU_TREE_TOKENS, _GPU_TREE_TOKENS = 512, 1024
"""On a CPU, a larger tree is computed as fast in a row of its own."""
_CPU_LONE_ROW_TOKENS, _GPU_LONE_ROW_TOKENS = 512, 2048
"""Rows of a request by itself, which is seldom longer than one."""
_CPU_BLOCK_TOKENS, _GPU_BLOCK_TOKENS = 128, 512
"""Short blocks share more of a beginning, and long ones need fewer calls, each of which costs a GPU the same time."""


class RowLengths:
    """The most tokens of a row, of a batch of small trees, and of one tree of such a batch.

    They follow from the device alone, or are ``fixed``. The clock has no say: other rows give other last digits. Only
    memory that runs out makes them smaller. ``alone``: every request is computed by itself, in blocks and rows.
    """

    def __init__(self, device: str, fixed: int | None = None, *, alone: bool = False) -> None:
        on_cpu = device == "cpu"
        together = _CPU_ROW_TOKENS if on_cpu else _GPU_ROW_TOKENS
        by_itself = _CPU_LONE_ROW_TOKENS if on_cpu else _GPU_LONE_ROW_TOKENS
        self.row_tokens = fixed or (by_itself if alone else together)
        self.block_tokens = _CPU_BLOCK_TOKENS if on_cpu else _GPU_BLOCK_TOKENS
        self.batch_tokens = fixed or (_CPU_BATCH_TOKENS if on_cpu else _GPU_BATCH_TOKENS)
        self.max_tree_tokens = min(self.batch_tokens, _CPU_TREE_TOKENS if on_cpu else _GPU_TREE_TOKENS)

    def limit_to(self, tokens: int) -> None:
        """Use no more than this many tokens from now on: the memory did not hold more."""
        tokens = max(tokens, 1)
        self.row_tokens, self.batch_tokens = min(self.row_tokens, tokens), min(self.batch_tokens, tokens)


# ---- batches of small trees ----

_ROW_WIDTHS = (256, 512, 1024)
_WIDTH_MULTIPLE = 16
_RECOMPUTED_DIVISOR = 16
"""At most one token in this many may be computed again, for the beginning that all trees have in common."""
_DOUBLE_COST_WIDTH = 8192
"""A row of this width costs about twice as much per token, because of its attention: a coarse estimate."""


@dataclass(frozen=True, slots=True)
class TreeBatch:
    """A batch of trees: token, depth and end by row and column.

    ``flat_places`` are the indices into the flattened batch at which the trie's places are. ``single_sequences``: each
    row is one sequence, which needs no mask but the causal one.
    """

    tokens: Ints
    depths: Ints
    ends: Ints
    flat_places: Ints
    single_sequences: bool


def plan_tree_batches(trie: Trie, max_tree_tokens: int, *, equal_width: bool) -> Trie:
    """Move the small trees of a trie to its end, and divide them into the rows of batches.

    ``equal_width``: all rows have one width, and a row may have several trees. Otherwise each row has one tree, and
    trees of similar size are neighbours.
    """
    size = len(trie)
    common = common_length(trie)
    if common == size or min(int(nodes[0]) for nodes in trie.nodes) < common:
        return trie
    starts = [common]
    while starts[-1] < size:
        starts.append(int(trie.ends[starts[-1]]))
    edges = np.array(starts)
    sizes = np.diff(edges)
    small = sizes <= max_tree_tokens - common
    # A tree with a prefix to be cached, or with a cached prefix, must go through the cache.
    cached = [place for _, place in trie.shared_prefixes] + [int(path[-1]) for path in trie.cached_nodes if len(path)]
    small[[int(np.searchsorted(edges, place, "right")) - 1 for place in cached if place >= common]] = False
    trees = np.flatnonzero(small)
    total = int(sizes[trees].sum())
    if len(trees) < 2:  # noqa: PLR2004 - a single tree is a single row
        return trie
    if equal_width:
        width, rows = _equal_rows(sizes, trees, common, max_tree_tokens)
    else:
        width, rows = 0, _one_tree_per_row(sizes, trees)
    if common * len(rows) > total // _RECOMPUTED_DIVISOR:
        return trie
    order = np.concatenate([np.flatnonzero(~small), *rows]).astype(np.int64)
    reordered = _reorder(trie, common, edges, order)
    row_edges = np.cumsum([size - total, *(int(sizes[row].sum()) for row in rows)])
    return replace(reordered, common_length=common, row_edges=row_edges, width=width)


def _one_tree_per_row(sizes: Ints, trees: Ints) -> list[list[int]]:
    return [[int(tree)] for tree in trees[np.argsort(-sizes[trees], kind="stable")]]


def _equal_rows(sizes: Ints, trees: Ints, common: int, max_width: int) -> tuple[int, list[list[int]]]:
    """Return the width that costs least, and the trees of each row."""
    largest = int(sizes[trees].max()) + common
    widths = [width for width in _ROW_WIDTHS if largest <= width <= max_width] or [max_width]
    plans = [_best_fit(sizes, trees, width - common) for width in widths]
    # Trees of one size may leave room that no row needs.
    needs = [common + max(int(sizes[row].sum()) for row in rows) for rows in plans]
    needed = [
        min(width, -(-need // _WIDTH_MULTIPLE) * _WIDTH_MULTIPLE) for width, need in zip(widths, needs, strict=True)
    ]
    found = zip(needed, plans, strict=True)
    return min(found, key=lambda plan: len(plan[1]) * plan[0] * (1 + plan[0] / _DOUBLE_COST_WIDTH))


def _best_fit(sizes: Ints, trees: Ints, capacity: int) -> list[list[int]]:
    """Divide trees into rows, the largest first: each goes into the row that it fills best."""
    rows: list[list[int]] = []
    free: list[tuple[int, int]] = []
    for (tree,) in _one_tree_per_row(sizes, trees):
        need = int(sizes[tree])
        at = bisect_left(free, (need, 0))
        if at < len(free):
            left, row = free.pop(at)
        else:
            left, row = capacity, len(rows)
            rows.append([])
        rows[row].append(tree)
        insort(free, (left - need, row))
    return rows


def _reorder(trie: Trie, common: int, edges: Ints, order: Ints) -> Trie:
    """Return the trie with its trees in another order."""
    sizes = np.diff(edges)
    new_starts = np.empty(len(sizes), np.int64)
    new_starts[order] = common + np.cumsum(sizes[order]) - sizes[order]
    shift = np.concatenate([np.zeros(common, np.int64), np.repeat(new_starts - edges[:-1], sizes)])
    places = np.arange(len(trie)) + shift
    old = np.empty(len(trie), np.int64)
    old[places] = np.arange(len(trie))
    return replace(
        trie,
        tokens=trie.tokens[old],
        depths=trie.depths[old],
        ends=(trie.ends + shift)[old],
        nodes=[places[nodes] for nodes in trie.nodes],
        shared_prefixes=[(tokens, int(places[place])) for tokens, place in trie.shared_prefixes],
        cached_nodes=[places[path] for path in trie.cached_nodes],
    )


def make_tree_batch(trie: Trie, first: int, last: int) -> TreeBatch:
    """Lay the rows ``first`` to ``last`` out as a batch; every row begins with what all sequences have in common."""
    edges, common = trie.row_edges[first : last + 1], trie.common_length
    sizes = np.diff(edges)
    width = trie.width or int(sizes.max()) + common
    row = np.repeat(np.arange(len(sizes)), sizes)
    column = np.arange(edges[0], edges[-1]) - edges[row] + common
    tokens, depths = (np.zeros((len(sizes), width), np.int64) for _ in range(2))
    # Padding attends to itself: a row of the mask must not be empty.
    ends = np.tile(np.arange(1, width + 1), (len(sizes), 1))
    tokens[row, column] = trie.tokens[edges[0] : edges[-1]]
    depths[row, column] = trie.depths[edges[0] : edges[-1]]
    ends[row, column] = trie.ends[edges[0] : edges[-1]] - edges[row] + common
    tokens[:, :common], depths[:, :common], ends[:, :common] = trie.tokens[:common], np.arange(common), width
    single = bool((trie.ends[edges[0] : edges[-1]] == edges[row + 1]).all())
    return TreeBatch(tokens, depths, ends, row * width + column, single)


def max_rows(trie: Trie, first: int, tokens: int, wanted: Ints, max_wanted: int) -> int:
    """Return how many rows from ``first`` on fit into this many tokens and have at most ``max_wanted`` places."""
    width = trie.width or int(trie.row_edges[first + 1] - trie.row_edges[first]) + trie.common_length
    last = min(first + max(tokens // width, 1), len(trie.row_edges) - 1)
    begin = int(np.searchsorted(wanted, trie.row_edges[first]))
    if begin + max_wanted < len(wanted):
        last = min(last, int(np.searchsorted(trie.row_edges, wanted[begin + max_wanted], "right")) - 1)
    return max(last - first, 1)


# ---- a request computed by itself: its rows depend on it alone, so that its numbers are always the same ----

# What all its sequences begin with goes through the model in blocks of one length, counted from the first token. So the
# keys and values of a block follow from the tokens up to its end. Those that an earlier request with the same beginning
# has left are the very same bits, and need not be computed again.


def cut_into_blocks(trie: Trie, size: int) -> Trie:
    """Return the trie of one request with its blocks, of which those at the beginning of a cached prefix are known."""
    first_wanted = min(int(nodes[0]) for nodes in trie.nodes)
    end = _whole_blocks(min(common_length(trie), first_wanted), size)
    known = [_whole_blocks(min(len(path), end), size) for path in trie.cached_nodes]
    longest = max(range(len(known)), key=known.__getitem__, default=0)
    return replace(
        trie,
        blocks_end=end,
        cached_nodes=[np.arange(count if at == longest else 0) for at, count in enumerate(known)],
        shared_prefixes=[(trie.tokens[:end].astype(np.int32), end - 1)] if end else [],
    )


def next_block_end(place: int, size: int) -> int:
    """Return where the block ends that a place is in."""
    return _whole_blocks(place, size) + size


def _whole_blocks(tokens: int, size: int) -> int:
    return tokens - tokens % size
