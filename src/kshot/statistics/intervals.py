"""95 % confidence intervals of figures and of their averages."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kshot.core.protocols import Scorer
from kshot.core.records import Value
from kshot.statistics.resampling import Interval, Reduce, bootstrap, is_mean, mean, middle_95

Z = 1.959963984540054
"""The 97.5 % point of the normal distribution."""

RIGHT = 100.0
"""The value of a right answer, in percent."""


def interval(values: Sequence[Value], reduce: Reduce = mean, *, right: float = RIGHT) -> Interval | None:
    """Return the 95 % confidence interval of ``reduce(values)``; None when there are too few values.

    The mean of 0/100 values: Wilson score interval. The mean of other plain values: ``mean ± 1.96·s/√n``. Anything else
    (tuples of sums; a figure that is not the mean): percentile bootstrap over the samples, with a fixed seed.
    ``right`` is the value of a right answer: the upper end of the metric's scale.
    """
    if not values or not all(math.isfinite(value) for value in values if not isinstance(value, tuple)):
        return None
    if isinstance(values[0], tuple) or not is_mean(reduce, values):
        return None if len(values) < 2 else middle_95(bootstrap(values, reduce))  # noqa: PLR2004 - one value has no spread
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
    """Return the Wilson interval of a share, in percent: ``(p + z²/2n ± z·√(p(1-p)/n + z²/4n²)) / (1 + z²/n)``."""
    share, z2 = right / n, Z * Z
    centre = share + z2 / (2 * n)
    half = Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    low, high = ((centre + sign * half) / (1 + z2 / n) for sign in (-1, 1))
    # Rounding must not push the ends past the share itself, or past what a share can be.
    return (100 * max(0.0, min(low, share)), 100 * min(1.0, max(high, share)))


def macro_interval(
    groups: Sequence[Sequence[Value]], reduce: Reduce = mean, *, right: float = RIGHT
) -> Interval | None:
    """Return the 95 % interval of the unweighted mean of the groups' figures; None when a group has no interval.

    The groups are independent, so their variances add: ``1.96·√(Σ vᵢ) / G``. A share of x in n has ``v = p(1-p)/n``
    with ``p = (x+1)/(n+2)``: small groups often show no variance of their own, and the plain formula then covers far
    less than 95 %. For other figures the distances to the ends of their own intervals are used.
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
    """Return half the width of the interval of a share, by the rule of succession; None for other figures."""
    if any(isinstance(value, tuple) or value not in {0.0, right} for value in values):
        return None
    n = len(values)
    share = (sum(value == right for value in values) + 1) / (n + 2)
    return right * Z * math.sqrt(share * (1 - share) / n)


def right_value(metric: Scorer) -> float:
    """Return the value of a right answer: the upper end of a scale that begins at 0, else 100."""
    return metric.bounds[1] if metric.bounds and metric.bounds[0] == 0 else RIGHT


def within_scale(found: Interval | None, metric: Scorer, values: Sequence[Value]) -> list[float] | None:
    """Return the interval cut to the metric's scale, as a list for JSON; values of 0 and 100 alone are shares."""
    if found is None:
        return None
    bounds = metric.bounds
    if bounds is None and all(value in {0.0, RIGHT} for value in values):
        bounds = (0.0, RIGHT)
    low, high = bounds or (-math.inf, math.inf)
    return [max(low, found[0]), min(high, found[1])]
