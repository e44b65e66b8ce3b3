"""Comparison of two systems on the same samples: difference, interval, sign test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kshot.core.errors import DataError
from kshot.core.records import Value
from kshot.statistics.resampling import (
    SEED,
    FloatArray,
    Interval,
    Reduce,
    bootstrap,
    is_mean,
    mean,
    middle_95,
    resamples,
)

PAIRED_RESAMPLES = 10_000
MAX_PAIRED_DRAWS = 20_000_000
"""Draws over all resamples; where there would be more, there are fewer resamples."""

_BLOCK_DRAWS = 1_000_000
"""Draws that are held in memory at a time."""


@dataclass(frozen=True, slots=True)
class Paired:
    """Two systems on the same samples: the difference of their figures, its 95 % interval, and p of the sign test."""

    difference: float
    interval: Interval | None
    p: float
    wins: int
    losses: int
    ties: int

    @property
    def decided(self) -> bool:
        """Whether one system is ahead: whether the interval of the difference excludes 0."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]


def paired(a: Sequence[Value], b: Sequence[Value], reduce: Reduce = mean) -> Paired:
    """Compare a with b, sample by sample: a bootstrap over samples, and a two-sided exact sign test without ties.

    The interval is the middle 95 % of the difference over 10,000 resamples for means, 1,000 for other figures; with
    many samples there are fewer resamples.
    """
    if len(a) != len(b) or not a:
        raise DataError(
            f"a paired comparison got {len(a)} and {len(b)} values", hint="Give one value per sample, in one order."
        )
    figures_a, figures_b = ([reduce([value]) for value in values] for values in (a, b))
    wins = sum(x > y for x, y in zip(figures_a, figures_b, strict=True))
    losses = sum(x < y for x, y in zip(figures_a, figures_b, strict=True))
    differences = _differences(a, b, reduce) if len(a) > 1 else None
    return Paired(
        difference=reduce(a) - reduce(b),
        interval=None if differences is None else middle_95(differences),
        p=sign_test(wins, losses),
        wins=wins,
        losses=losses,
        ties=len(a) - wins - losses,
    )


def _differences(a: Sequence[Value], b: Sequence[Value], reduce: Reduce) -> FloatArray:
    """Return the differences of the two figures over resamples of the samples."""
    if isinstance(a[0], tuple) or not (is_mean(reduce, a) and is_mean(reduce, b)):
        return bootstrap(a, reduce) - bootstrap(b, reduce)
    gaps = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    n, draws = len(gaps), np.random.default_rng(SEED)
    count = max(resamples(n), min(PAIRED_RESAMPLES, MAX_PAIRED_DRAWS // n))
    block = max(1, _BLOCK_DRAWS // n)
    return np.concatenate(
        [gaps[draws.integers(n, size=(min(block, count - done), n))].mean(axis=1) for done in range(0, count, block)]
    )


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided exact binomial p: the chance that a fair coin lands at least this unevenly."""
    n, fewer = wins + losses, min(wins, losses)
    # log C(n, i) for i = 0…fewer, from the ratios of neighbours, so that no factorial overflows
    steps = np.arange(1, fewer + 1, dtype=np.float64)
    logs = np.concatenate([[0.0], np.cumsum(np.log((n - steps + 1) / steps))])
    return min(1.0, 2 * float(np.exp(logs - n * math.log(2)).sum()))
