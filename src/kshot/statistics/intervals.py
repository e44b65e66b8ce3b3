"""How sure a figure is: 95 % intervals, and the comparison of two systems on the same samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.core.errors import DataError
from kshot.core.records import Value
from kshot.metrics.metric import mean

Z = 1.959963984540054  # the normal distribution's 97.5 % point
RIGHT = 100.0
RESAMPLES = 1000
FEWEST_RESAMPLES = 200
DRAWS = 200_000_000  # over all resamples; beyond that there are fewer of them
PAIRED_RESAMPLES = 10_000
PAIRED_DRAWS = 20_000_000  # as DRAWS
BLOCK = 1_000_000  # draws at a time
SEED = 20240607

Reduce = Callable[[Sequence[Value]], float]
Interval = tuple[float, float]
Floats = NDArray[np.float64]


def interval(values: Sequence[Value], reduce: Reduce = mean, *, right: float = RIGHT) -> Interval | None:
    """95 % confidence interval of ``reduce(values)``; None when there are too few values to tell.

    The mean of 0/100 values: Wilson score interval. The mean of other plain values: ``mean ± 1.96·s/√n``. Anything else
    (tuples of sums; a figure that is not the mean): percentile bootstrap over the samples, with a fixed seed.
    ``right`` is the value of a right answer, where it is not 100: the upper end of the metric's scale.
    """
    if not values or not all(math.isfinite(value) for value in values if not isinstance(value, tuple)):
        return None
    if isinstance(values[0], tuple) or not _is_mean(reduce, values):
        return _bootstrap_interval(values, reduce)
    plain = np.asarray(values, dtype=np.float64)
    rights = int((plain == right).sum())
    if rights + int((plain == 0.0).sum()) == len(plain):
        low, high = wilson(rights, len(plain))
        scale = right / RIGHT
        return (low * scale, high * scale)
    if len(plain) < 2:  # noqa: PLR2004 - one value has no spread
        return None
    centre, half = float(plain.mean()), Z * float(plain.std(ddof=1)) / math.sqrt(len(plain))
    return (centre - half, centre + half)


def wilson(right: int, n: int) -> Interval:
    """Wilson score interval of a share, in percent: ``(p + z²/2n ± z·√(p(1-p)/n + z²/4n²)) / (1 + z²/n)``."""
    share, z2 = right / n, Z * Z
    centre = share + z2 / (2 * n)
    half = Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    low, high = ((centre + sign * half) / (1 + z2 / n) for sign in (-1, 1))
    # Rounding must not push the ends past the share itself, or past what a share can be.
    return (100 * max(0.0, min(low, share)), 100 * min(1.0, max(high, share)))


def macro_interval(
    groups: Sequence[Sequence[Value]], reduce: Reduce = mean, *, right: float = RIGHT
) -> Interval | None:
    """95 % interval of the unweighted mean of the groups' figures; None when any group's is unknown.

    The groups are independent, so their variances add: ``1.96·√(Σ vᵢ) / G``. A share of x in n has ``v = p(1-p)/n``
    with ``p = (x+1)/(n+2)``: groups of a few samples often show no variance of their own, and the plain formula then
    covers far less than 95 %. Other figures take the distances of their own intervals' ends.
    """
    if not groups:
        return None
    figures, below, above = [], 0.0, 0.0
    for values in groups:
        own = interval(values, reduce, right=right)
        if own is None:
            return None
        figure = reduce(values)
        figures.append(figure)
        half = _share_half(values, right)
        below += (figure - own[0] if half is None else half) ** 2
        above += (own[1] - figure if half is None else half) ** 2
    count = len(figures)
    centre = math.fsum(figures) / count
    return (centre - math.sqrt(below) / count, centre + math.sqrt(above) / count)


def _share_half(values: Sequence[Value], right: float) -> float | None:
    """Half the width of a share's interval, by the rule of succession; None for other figures."""
    if any(isinstance(value, tuple) or value not in {0.0, right} for value in values):
        return None
    n = len(values)
    share = (sum(value == right for value in values) + 1) / (n + 2)
    return right * Z * math.sqrt(share * (1 - share) / n)


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
        """Whether the first is better beyond what the choice of samples explains: the interval is above 0."""
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
        interval=None if spread is None else _middle(spread),
        p=sign_test(wins, losses),
        wins=wins,
        losses=losses,
        ties=len(a) - wins - losses,
    )


def _differences(a: Sequence[Value], b: Sequence[Value], reduce: Reduce) -> Floats:
    """Differences of the two figures over resamples of the samples."""
    if isinstance(a[0], tuple) or not (_is_mean(reduce, a) and _is_mean(reduce, b)):
        return _resampled(a, reduce) - _resampled(b, reduce)
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


def resamples(n: int) -> int:
    """How many bootstrap resamples are drawn for n values."""
    return max(FEWEST_RESAMPLES, min(RESAMPLES, DRAWS // n))


def _bootstrap_interval(values: Sequence[Value], reduce: Reduce) -> Interval | None:
    return None if len(values) < 2 else _middle(_resampled(values, reduce))  # noqa: PLR2004 - as above


def _middle(figures: Floats) -> Interval:
    low, high = np.quantile(figures, (0.025, 0.975))
    return (float(low), float(high))


def _resampled(values: Sequence[Value], reduce: Reduce) -> Floats:
    """Figures of the resamples. One at a time, so memory is that of one; the seed makes two calls draw alike."""
    n = len(values)
    draws = np.random.default_rng(SEED)
    figure = _figure_of_counts(values, reduce)
    return np.array(
        [figure(np.bincount(draws.integers(n, size=n), minlength=n)) for _ in range(resamples(n))], dtype=np.float64
    )


def _figure_of_counts(values: Sequence[Value], reduce: Reduce) -> Callable[[NDArray[np.int64]], float]:
    """Choose how a resample, given as how often each value was drawn, becomes a figure."""
    table: Floats = np.asarray(values, dtype=np.float64)
    if table.ndim == 1 and _is_mean(reduce, values):
        return lambda counts: float(counts @ table) / len(table)
    if table.ndim > 1:
        whole = reduce([_row(table.sum(axis=0))])
        if math.isclose(whole, reduce(values), rel_tol=1e-6, abs_tol=1e-9):  # the sums are all that counts
            return lambda counts: reduce([_row(counts @ table)])
    return lambda counts: reduce([values[int(i)] for i in np.repeat(np.arange(len(values)), counts)])


def _is_mean(reduce: Reduce, values: Sequence[Value]) -> bool:
    """Tell whether a metric's ``reduce`` is the mean: it agrees on the whole and on uneven parts of it."""
    if reduce is mean:
        return True
    parts = (values, values[:1], values[: (len(values) + 2) // 3], values[::2])
    return all(math.isclose(reduce(part), mean(part), rel_tol=1e-9, abs_tol=1e-9) for part in parts)


def _row(sums: Any) -> tuple[float, ...]:
    return tuple(float(part) for part in sums)
