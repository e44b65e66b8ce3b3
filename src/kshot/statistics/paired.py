"""Two systems on the same samples: difference, interval, sign test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kshot.core.errors import DataError
from kshot.core.records import Value
from kshot.statistics.resampling import SEED, FloatArray, Interval, Reduce, is_mean, mean, middle, resampled, resamples

PAIRED_RESAMPLES = 10_000
PAIRED_DRAWS = 20_000_000  # over all resamples; beyond that there are fewer of them
BLOCK = 1_000_000  # draws at a time


@dataclass(frozen=True, slots=True)
class Paired:
    """Two systems on the same samples: difference of their figures, its 95 % interval, and the sign test's p."""

    difference: float
    interval: Interval | None
    p: float
    wins: int
    losses: int
    ties: int

    @property
    def ahead(self) -> bool:
        """Whether the interval of the difference is above 0."""
        return self.interval is not None and self.interval[0] > 0


def paired(a: Sequence[Value], b: Sequence[Value], reduce: Reduce = mean) -> Paired:
    """Compare a with b, sample by sample: bootstrap over samples, and a two-sided exact sign test without the ties.

    The interval is the middle 95 % of the difference over 10,000 resamples for means, 1,000 for other figures; many
    samples take fewer.
    """
    if len(a) != len(b) or not a:
        raise DataError(
            f"a paired comparison got {len(a)} and {len(b)} values", hint="Give one value per sample, in one order."
        )
    ones, others = ([reduce([value]) for value in side] for side in (a, b))
    wins = sum(x > y for x, y in zip(ones, others, strict=True))
    losses = sum(x < y for x, y in zip(ones, others, strict=True))
    spread = _differences(a, b, reduce) if len(a) > 1 else None
    return Paired(
        difference=reduce(a) - reduce(b),
        interval=None if spread is None else middle(spread),
        p=sign_test(wins, losses),
        wins=wins,
        losses=losses,
        ties=len(a) - wins - losses,
    )


def _differences(a: Sequence[Value], b: Sequence[Value], reduce: Reduce) -> FloatArray:
    """Return the differences of the two figures over resamples of the samples."""
    if isinstance(a[0], tuple) or not (is_mean(reduce, a) and is_mean(reduce, b)):
        return resampled(a, reduce) - resampled(b, reduce)
    gaps = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    n, draws = len(gaps), np.random.default_rng(SEED)
    many = max(resamples(n), min(PAIRED_RESAMPLES, PAIRED_DRAWS // n))
    block = max(1, BLOCK // n)
    return np.concatenate(
        [gaps[draws.integers(n, size=(min(block, many - done), n))].mean(axis=1) for done in range(0, many, block)]
    )


def sign_test(wins: int, losses: int) -> float:
    """Two-sided exact binomial p that a fair coin lands at least this unevenly."""
    n, fewer = wins + losses, min(wins, losses)
    # log C(n, i) for i = 0…fewer, by the ratio of neighbours: no factorial overflows
    steps = np.arange(1, fewer + 1, dtype=np.float64)
    logs = np.concatenate([[0.0], np.cumsum(np.log((n - steps + 1) / steps))])
    return min(1.0, 2 * float(np.exp(logs - n * math.log(2)).sum()))
