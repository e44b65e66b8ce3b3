"""The best few of many: found fast in float32, then decided in float64, so that every machine chooses the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Doubles: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.intp]
Exact: TypeAlias = Callable[[Ints, Ints], Doubles]
"""Scores of (row, column) pairs in double precision; rows come in ascending order."""

BLOCK_BYTES = 64 * 2**20
CANDIDATES = 2**20
DIGITS = 10
"""Scores that agree to this many decimals are a tie, and the lower row number wins: rounding noise decides nothing."""


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Cut the rows so that a float32 table of one cut stays within ``BLOCK_BYTES``."""
    step = max(1, min(1024, BLOCK_BYTES // (4 * max(columns, 1))))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def best(scores: Floats, k: int, slack: npt.NDArray[Any], exact: Exact, hidden: Sequence[Sequence[int]]) -> list[Ints]:
    """For each row of scores its ``k`` best columns, best first, ties by number, without the hidden ones.

    ``slack`` bounds twice the error of each row's scores: whatever might belong to the best is scored again exactly. A
    score of exactly 0 is taken as exact (no word in common), and only the first ``k`` such columns are looked at.
    """
    for row, columns in enumerate(hidden):
        if columns:
            scores[row, list(columns)] = -np.inf
    if not k:
        return [np.empty(0, dtype=np.intp)] * len(scores)
    floor = _floor(scores, k) - slack
    near = scores >= floor[:, None]
    crowded = (floor <= 0) & (np.count_nonzero(near, axis=1) > 4 * k)
    for at in np.flatnonzero(crowded):
        zeros = np.flatnonzero(scores[at] == 0)
        near[at, zeros[k:]] = False
    near &= scores > -np.inf
    found: list[Ints] = []
    many = np.count_nonzero(near, axis=1)
    while len(found) < len(scores):  # where all rows are alike all are candidates: no more of them at once than fit
        start = len(found)
        stop = start + max(1, int(np.searchsorted(np.cumsum(many[start:]), CANDIDATES, side="right")))
        found += _decided(near[start:stop], start, k, exact)
    return found


def _decided(near: npt.NDArray[np.bool_], start: int, k: int, exact: Exact) -> list[Ints]:
    """The ``k`` best of the candidates of each row, by exact score, then by number."""
    rows, columns = np.nonzero(near)
    values = np.round(exact(rows + start, columns), DIGITS)
    order = np.lexsort((columns, -values, rows))
    rows, columns = rows[order], columns[order]
    starts = np.searchsorted(rows, np.arange(len(near)))
    ends = np.searchsorted(rows, np.arange(len(near)), side="right")
    return [columns[first : min(first + k, end)] for first, end in zip(starts, ends, strict=True)]


def _floor(scores: Floats, k: int) -> Floats:
    """A value in each row that at least ``k`` scores reach.

    Columns are folded onto each other by their maximum: the k-th largest of the folds is reached by k distinct columns,
    and is found among far fewer numbers.
    """
    folded = scores
    while folded.shape[1] > max(1024, 16 * k):
        half = folded.shape[1] // 2
        halved = np.maximum(folded[:, :half], folded[:, half : 2 * half])
        if folded.shape[1] % 2:
            np.maximum(halved[:, 0], folded[:, -1], out=halved[:, 0])
        folded = halved
    at = max(folded.shape[1] - k, 0)
    lowest: Floats = np.partition(folded, at, axis=1)[:, at]
    return lowest
