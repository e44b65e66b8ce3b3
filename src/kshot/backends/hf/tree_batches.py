"""Small trees side by side: where sequences have little in common, their trees make the rows of a batch.

One long row would have each token look past all the others; in a batch of short rows it looks past its own row only.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kshot.backends.hf.trie import Ints, Trie

_WIDTHS = (256, 512, 1024)
_GRAIN = 16
_AGAIN = 16
"""At most one token in so many may be computed again, for the beginning that all trees have in common."""
_ATTENTION = 8192
"""The width of a row at which it would cost twice as much per token, for the attention: a coarse estimate."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of trees: token, depth and end by row and column, and where in it the trie's places ended up.

    ``straight``: each row is one sequence, which needs no mask but the usual one.
    """

    tokens: Ints
    depths: Ints
    ends: Ints
    where: Ints
    straight: bool


def planted(trie: Trie, widest: int, *, even: bool) -> Trie:
    """Move the small trees of a trie to its end, and part them into the rows of batches.

    ``even``: all rows of one width, several trees in each; else one tree a row, those of like size together.
    """
    size = len(trie)
    stem = _stem(trie)
    if stem == size or min(int(nodes[0]) for nodes in trie.nodes) < stem:
        return trie
    starts = [stem]
    while starts[-1] < size:
        starts.append(int(trie.ends[starts[-1]]))
    edges = np.array(starts)
    sizes = np.diff(edges)
    small = sizes <= widest - stem
    # What is kept for later must go through the cache.
    kept = [place for _, place in trie.trunks] + [int(path[-1]) for path in trie.known if len(path)]
    small[[int(np.searchsorted(edges, place, "right")) - 1 for place in kept if place >= stem]] = False
    trees = np.flatnonzero(small)
    total = int(sizes[trees].sum())
    if len(trees) < 2:  # noqa: PLR2004 - one tree is one row
        return trie
    width, rows = _even(sizes, trees, stem, widest) if even else (0, _alone(sizes, trees))
    if stem * len(rows) > total // _AGAIN:
        return trie
    order = np.concatenate([np.flatnonzero(~small), *rows]).astype(np.int64)
    moved = _moved(trie, stem, edges, order)
    ends = np.cumsum([size - total, *(int(sizes[row].sum()) for row in rows)])
    return replace(moved, stem=stem, rows=ends, width=width)


def _stem(trie: Trie) -> int:
    """How many tokens all sequences begin with."""
    whole = trie.ends == len(trie)
    return len(trie) if whole.all() else int(whole.argmin())


def _alone(sizes: Ints, trees: Ints) -> list[list[int]]:
    return [[int(tree)] for tree in trees[np.argsort(-sizes[trees], kind="stable")]]


def _even(sizes: Ints, trees: Ints, stem: int, widest: int) -> tuple[int, list[list[int]]]:
    """The width that costs least, and the trees of each row."""
    largest = int(sizes[trees].max()) + stem
    widths = [width for width in _WIDTHS if largest <= width <= widest] or [widest]
    plans = [_filled(sizes, trees, width - stem) for width in widths]
    # Trees of one size may leave room that no row needs.
    needs = [stem + max(int(sizes[row].sum()) for row in rows) for rows in plans]
    narrow = [min(width, -(-need // _GRAIN) * _GRAIN) for width, need in zip(widths, needs, strict=True)]
    found = zip(narrow, plans, strict=True)
    return min(found, key=lambda plan: len(plan[1]) * plan[0] * (1 + plan[0] / _ATTENTION))


def _filled(sizes: Ints, trees: Ints, room: int) -> list[list[int]]:
    """Best fit, largest first: each tree goes where it leaves least room."""
    rows: list[list[int]] = []
    free: list[tuple[int, int]] = []
    for (tree,) in _alone(sizes, trees):
        need = int(sizes[tree])
        at = bisect_left(free, (need, 0))
        if at < len(free):
            left, row = free.pop(at)
        else:
            left, row = room, len(rows)
            rows.append([])
        rows[row].append(tree)
        insort(free, (left - need, row))
    return rows


def _moved(trie: Trie, stem: int, edges: Ints, order: Ints) -> Trie:
    """The trie with its trees in another order."""
    sizes = np.diff(edges)
    after = np.empty(len(sizes), np.int64)
    after[order] = stem + np.cumsum(sizes[order]) - sizes[order]
    shift = np.concatenate([np.zeros(stem, np.int64), np.repeat(after - edges[:-1], sizes)])
    places = np.arange(len(trie)) + shift
    old = np.empty(len(trie), np.int64)
    old[places] = np.arange(len(trie))
    return replace(
        trie,
        tokens=trie.tokens[old],
        depths=trie.depths[old],
        ends=(trie.ends + shift)[old],
        nodes=[places[nodes] for nodes in trie.nodes],
        trunks=[(tokens, int(places[place])) for tokens, place in trie.trunks],
        known=[places[path] for path in trie.known],
        hashes=trie.hashes[old],
    )


def batch_of(trie: Trie, first: int, last: int) -> Batch:
    """Lay the rows ``first`` to ``last`` out as a batch; every row begins with what all have in common."""
    edges, stem = trie.rows[first : last + 1], trie.stem
    sizes = np.diff(edges)
    width = trie.width or int(sizes.max()) + stem
    row = np.repeat(np.arange(len(sizes)), sizes)
    column = np.arange(edges[0], edges[-1]) - edges[row] + stem
    tokens, depths = (np.zeros((len(sizes), width), np.int64) for _ in "ab")
    # Padding sees itself, for something must be seen.
    ends = np.tile(np.arange(1, width + 1), (len(sizes), 1))
    tokens[row, column] = trie.tokens[edges[0] : edges[-1]]
    depths[row, column] = trie.depths[edges[0] : edges[-1]]
    ends[row, column] = trie.ends[edges[0] : edges[-1]] - edges[row] + stem
    tokens[:, :stem], depths[:, :stem], ends[:, :stem] = trie.tokens[:stem], np.arange(stem), width
    straight = bool((trie.ends[edges[0] : edges[-1]] == edges[row + 1]).all())
    return Batch(tokens, depths, ends, row * width + column, straight)


def most_rows(trie: Trie, first: int, tokens: int, wanted: Sequence[int] | NDArray[np.int64], most: int) -> int:
    """How many rows from ``first`` on come to so many tokens, and to no more wanted places than ``most``."""
    width = trie.width or int(trie.rows[first + 1] - trie.rows[first]) + trie.stem
    last = min(first + max(tokens // width, 1), len(trie.rows) - 1)
    begin = int(np.searchsorted(wanted, trie.rows[first]))
    if begin + most < len(wanted):
        last = min(last, int(np.searchsorted(trie.rows, wanted[begin + most], "right")) - 1)
    return max(last - first, 1)
