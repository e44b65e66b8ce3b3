"""The best few of many scores: of one row as they are, or of many rows decided in double precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""An array of any numbers."""
Floats: TypeAlias = npt.NDArray[np.float32]
Doubles: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Positions: TypeAlias = npt.NDArray[np.intp]
"""Numbers of rows, columns or passages."""


ExactScores: TypeAlias = Callable[[Positions, Positions], Doubles]
"""Gives the scores of (row, column) pairs in double precision; rows come in ascending order."""

BLOCK_BYTES = 64 * 2**20
MAX_CANDIDATES = 2**20
DIGITS = 10
"""Scores that agree to this many decimals are a tie, and the lower number wins: rounding noise decides nothing."""


class Found(NamedTuple):
    """Positions in the corpus, best first (equal scores: lower position first), with their scores."""

    positions: Sequence[int]
    scores: Sequence[float]


def best(scores: Array, k: int, positions: Positions | None = None) -> Found:
    """Return the ``k`` highest of an array of scores, exactly: equal ones in the order of their positions.

    ``positions`` (ascending) says where the scores belong; by default the first score is the first passage's.
    """
    if k <= 0:
        return Found((), ())
    if len(scores) > k:
        border = np.partition(scores, len(scores) - k)[len(scores) - k]
        above = np.flatnonzero(scores > border)
        kept = np.concatenate((above, np.flatnonzero(scores == border)[: k - len(above)]))
        kept.sort()
    else:
        kept = np.arange(len(scores))
    kept = kept[np.argsort(-scores[kept], kind="stable")]
    where = kept if positions is None else positions[kept]
    return Found(where.tolist(), scores[kept].tolist())


def row_blocks(rows: int, columns: int) -> Iterator[slice]:
    """Cut the rows so that a float32 table of one cut stays within ``BLOCK_BYTES``."""
    step = max(1, min(1024, BLOCK_BYTES // (4 * max(columns, 1))))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def best_columns(
    scores: Floats, k: int, slack: Floats, exact: ExactScores, hidden: Sequence[Sequence[int]]
) -> list[Positions]:
    """Return the ``k`` best columns of each row of scores, best first, ties by number, without the hidden ones.

    Candidates are found in float32 and decided in float64, so that every machine chooses the same. ``slack`` bounds
    twice the error of each row's scores: every column that might belong to the best is scored again exactly. A score of
    exactly 0 is taken as exact (no word in common), and only the first ``k`` such columns are candidates.
    """
    for row, columns in enumerate(hidden):
        if columns:
            scores[row, list(columns)] = -np.inf
    if not k:
        return [np.empty(0, dtype=np.intp)] * len(scores)
    floor = _reached_by(scores, k) - slack
    near = scores >= floor[:, None]
    crowded = (floor <= 0) & (np.count_nonzero(near, axis=1) > 4 * k)
    for at in np.flatnonzero(crowded):
        zeros = np.flatnonzero(scores[at] == 0)
        near[at, zeros[k:]] = False
    near &= scores > -np.inf
    found: list[Positions] = []
    counts = np.count_nonzero(near, axis=1)
    while len(found) < len(scores):  # where all columns score alike all are candidates: decide a bounded number at once
        start = len(found)
        stop = start + max(1, int(np.searchsorted(np.cumsum(counts[start:]), MAX_CANDIDATES, side="right")))
        found += _decided(near[start:stop], start, k, exact)
    return found


def _decided(near: npt.NDArray[np.bool_], start: int, k: int, exact: ExactScores) -> list[Positions]:
    """Return the ``k`` best candidates of each row, by exact score, then by number."""
    rows, columns = np.nonzero(near)
    values = np.round(exact(rows + start, columns), DIGITS)
    order = np.lexsort((columns, -values, rows))
    rows, columns = rows[order], columns[order]
    starts = np.searchsorted(rows, np.arange(len(near)))
    ends = np.searchsorted(rows, np.arange(len(near)), side="right")
    return [columns[first : min(first + k, end)] for first, end in zip(starts, ends, strict=True)]


def _reached_by(scores: Floats, k: int) -> Floats:
    """Return a value for each row that at least ``k`` of its scores reach.

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
