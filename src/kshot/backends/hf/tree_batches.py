"""How a trie is divided: into rows by a fixed rule, into batches of small trees, or into blocks of a lone request.

Where sequences have little in common, their trees become the rows of a batch.

In one long row the mask of each token would cover all other tokens. In a batch of short rows it covers one row.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, replace

import numpy as np

from kshot.backends.hf.trie import Ints, Trie, common_length

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
        hashes=trie.hashes[old],
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
