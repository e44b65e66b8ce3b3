"""95 % confidence intervals of figures and of their averages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kshot.core.metric import Measure, Observation
from kshot.statistics.figures import ROUNDING
from kshot.statistics.resampling import (
    FloatArray,
    Interval,
    Reduce,
    Values,
    Z,
    are_numbers,
    bootstrap,
    is_mean,
    mean,
    middle_95,
    sequence_of,
    student_point,
)

_HALVINGS = 44
_LARGEST_TILT = 45.0
"""At this tilt nearly all weight lies on the added score, whatever the others are."""

_MAX_DISTINCT = 10_000
"""Scores with more distinct values are rounded to this many steps of the scale first."""

_NO_TILT = 1e-9


def bounded_interval(values: FloatArray, low: float, high: float) -> tuple[float, float]:
    """Return the 95 % interval of the mean of values between ``low`` and ``high``: Clopper and Pearson's.

    Their upper end for x right answers of n is the 97.5 % point of a Beta(x + 1, n - x) distribution. That is the
    distribution of a mean whose weights are random (Dirichlet), over the n answers and one more at the upper end of the
    scale. The same distribution exists for answers of any value between the ends, and its 97.5 % point is the upper end
    here; the lower end is its mirror image (Learned-Miller and Thomas, 2020). The added answer stands for what the
    sample has not shown: where nearly all scores are equal, the sample's own spread says little.

    With exponential variables E the weighted mean is at most t exactly if ``Σ E·(v - t) ≤ 0``. The chance of that is
    computed by its saddlepoint approximation: no random numbers, and ends that are right within about 1 %.
    """
    shares = (values - low) / (high - low)
    points, counts = np.unique(shares, return_counts=True)
    if len(points) > _MAX_DISTINCT:
        points, counts = np.unique(np.round(shares * _MAX_DISTINCT) / _MAX_DISTINCT, return_counts=True)
    ends = bounded_ends(points[None], counts[None].astype(np.float64))
    return (low + (high - low) * float(ends[0][0]), low + (high - low) * float(ends[1][0]))


def bounded_ends(points: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the lower and the upper ends for many samples: each row has values from 0 to 1, and their counts."""
    means = (points * counts).sum(axis=1) / counts.sum(axis=1)
    low, high = 1 - upper_ends(1 - points, counts), upper_ends(points, counts)
    return np.minimum(low, means), np.maximum(high, means)


def upper_ends(points: FloatArray, counts: FloatArray) -> FloatArray:
    """Return for each row the 97.5 % point of the mean with random weights, over the values and one more at 1.

    For a ``tilt`` g, the weights ``1 / (1 - (1 - e⁻ᵍ)·v)`` give the mean t at which the saddlepoint is known. The
    chance that the mean with random weights exceeds t falls as g grows, so the right g is found by halving.
    """
    rows = len(points)
    points = np.concatenate([points, np.ones((rows, 1))], axis=1)
    counts = np.concatenate([counts, np.ones((rows, 1))], axis=1)
    low, high = np.zeros(rows), np.full(rows, _LARGEST_TILT)
    means = np.ones(rows)
    for _ in range(_HALVINGS):
        tilt = (low + high) / 2
        means, deviates = _tilted(points, counts, tilt)
        beyond = deviates > Z
        high, low = np.where(beyond, tilt, high), np.where(beyond, low, tilt)
    return means


def _tilted(points: FloatArray, counts: FloatArray, tilt: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the means under a tilt, and the normal deviates of the chances that they are exceeded."""
    rest = np.exp(-tilt)[:, None]
    weights = 1 / ((1 - points) + points * rest)
    tilted = counts * weights
    means = (tilted * points).sum(axis=1) / tilted.sum(axis=1)
    scale = (1 - means) + means * rest[:, 0]
    ratios = scale[:, None] * weights
    cumulants = (counts * np.log(ratios)).sum(axis=1)
    curvatures = (counts * ((points - means[:, None]) * ratios) ** 2).sum(axis=1)
    slopes = (1 - rest[:, 0]) / scale * np.sqrt(curvatures)
    r = np.sqrt(np.maximum(-2 * cumulants, _NO_TILT))
    moved = (slopes > _NO_TILT) & (-cumulants > _NO_TILT)  # where all scores lie at the upper end, nothing moves
    return means, np.where(moved, r + np.log(np.maximum(slopes, _NO_TILT) / r) / r, 0.0)


PERCENT = (0.0, 100.0)
"""The scale of shares."""

_PRIOR_VALUES = 4


def interval(
    values: Values, reduce: Reduce = mean, *, bounds: Interval | None = None, binary: bool = False
) -> Interval | None:
    """Return the 95 % confidence interval of ``reduce(values)``; None when there are too few values.

    ``bounds`` are the ends of the scale; ``binary``: every value is one of them, right or wrong. The mean of such
    values: Wilson's score interval. The mean of values between the ends: Clopper and Pearson's interval, extended to
    scores; also where the values of this sample all lie at the ends, since others need not. The mean of values without
    known ends: Student's t, or Wilson's where all are 0 or 100. Anything else (tuples of sums; a figure that is not the
    mean): a bootstrap over the samples, with a fixed seed. The order of the values does not matter.
    """
    values = sequence_of(values)
    if not values or not all(math.isfinite(value) for value in values if not isinstance(value, tuple | Observation)):
        return None
    if not are_numbers(values) or not is_mean(reduce, values):
        figures = bootstrap(values, reduce) if len(values) > 1 else np.empty(0)  # one value has no spread
        return middle_95(figures, len(values)) if len(figures) else None
    plain = np.sort(np.asarray(values, dtype=np.float64))
    scale = _scale(plain, bounds)
    if scale is None:
        return _student(float(plain.mean()), [plain], np.ones(1))
    low, high = scale
    plain = plain.clip(low, high)
    rights = int((plain == high).sum())
    if (binary or bounds is None) and rights + int((plain == low).sum()) == len(plain):
        lower, upper = wilson(rights, len(plain))
        scaled = (high - low) / 100
        return (low + scaled * lower, low + scaled * upper)
    return bounded_interval(plain, low, high)


def wilson(right: int, n: int) -> Interval:
    """Return the Wilson interval of a share, in percent: ``(p + z²/2n ± z·√(p(1-p)/n + z²/4n²)) / (1 + z²/n)``."""
    return _wilson(right / n, n)


def _wilson(share: float, n: float) -> Interval:
    z2 = Z * Z
    centre = share + z2 / (2 * n)
    half = Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    low, high = ((centre + sign * half) / (1 + z2 / n) for sign in (-1, 1))
    # Rounding must not push the ends past the share itself, or past what a share can be.
    return (100 * max(0.0, min(low, share)), 100 * min(1.0, max(high, share)))


def macro_interval(
    groups: Sequence[Sequence[Any]],
    reduce: Reduce = mean,
    *,
    bounds: Interval | None = None,
    weights: Sequence[float] | None = None,
) -> Interval | None:
    """Return the 95 % interval of the average of the groups' figures; None when a group has no interval.

    ``weights`` are those of the groups in the average; without them all groups count the same. The groups are
    independent, so only the spread within them counts. Means on a known scale: Wilson's interval, for as many right or
    wrong answers as would have the variance of the average. Other means: Student's t. Other figures: the distances to
    the ends of their own intervals, added as variances are.
    """
    if not groups or not all(map(len, groups)):
        return None
    given = np.ones(len(groups)) if weights is None else np.asarray(weights, dtype=np.float64)
    shares = given / given.sum()
    if not all(are_numbers(values) and is_mean(reduce, values) for values in groups):
        return _added_up(groups, reduce, shares)
    plain = [np.sort(np.asarray(values, dtype=np.float64)) for values in groups]
    together = np.concatenate(plain)
    if not np.isfinite(together).all():
        return None
    centre = math.fsum(float(share * values.mean()) for share, values in zip(shares, plain, strict=True))
    scale = _scale(together, bounds)
    if scale is None:
        return _student(centre, plain, shares)
    low, width = scale[0], scale[1] - scale[0]
    scaled = [(values.clip(*scale) - low) / width for values in plain]
    below, above = _scaled_wilson(min(1.0, max(0.0, (centre - low) / width)), scaled, shares)
    return (low + width / 100 * below, low + width / 100 * above)


def _scaled_wilson(centre: float, groups: Sequence[FloatArray], shares: FloatArray) -> Interval:
    """Return Wilson's interval, in percent, of an average of means between 0 and 1.

    The variance within each group counts, and with it, like four more values, that of all values: a small group shows
    little of its own. The 1 is one squared error that no group has shown: where none shows any, they need not be
    without.
    """
    overall = math.fsum(share * float(((v - centre) ** 2).mean()) for share, v in zip(shares, groups, strict=True))
    size = 1 / math.fsum(share**2 / len(v) for share, v in zip(shares, groups, strict=True))  # if all groups are alike
    variance = math.fsum(
        share**2
        / len(v)
        * (float(((v - v.mean()) ** 2).sum()) + _PRIOR_VALUES * overall)
        / (len(v) - 1 + _PRIOR_VALUES)
        for share, v in zip(shares, groups, strict=True)
    )
    return _wilson(centre, size * (size * centre * (1 - centre) + 1) / (size**2 * variance + 1))


def _student(centre: float, groups: Sequence[FloatArray], shares: FloatArray) -> Interval | None:
    """Return Student's interval of the average of the groups' means, with Welch's degrees of freedom."""
    if any(len(values) < 2 for values in groups):  # noqa: PLR2004 - one value has no spread
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # values near the largest float
        parts = [
            share**2 * float(values.var(ddof=1)) / len(values) for share, values in zip(shares, groups, strict=True)
        ]
    if not all(map(math.isfinite, parts)):
        return None
    variance = math.fsum(parts)
    if not variance:
        return (centre, centre)
    spread = math.fsum((v / variance) ** 2 / (len(values) - 1) for v, values in zip(parts, groups, strict=True))
    half = student_point(1 / spread) * math.sqrt(variance)
    return (centre - half, centre + half)


def _added_up(groups: Sequence[Sequence[Any]], reduce: Reduce, shares: FloatArray) -> Interval | None:
    """Return the interval of an average of figures that are not means, from the intervals of the figures."""
    centre, below, above = 0.0, 0.0, 0.0
    for values, share in zip(groups, shares, strict=True):
        own, figure = interval(values, reduce), reduce(values)
        if own is None or figure is None:
            return None
        centre += share * figure
        below += (share * (figure - own[0])) ** 2
        above += (share * (own[1] - figure)) ** 2
    return (centre - math.sqrt(below), centre + math.sqrt(above))


def _scale(values: FloatArray, bounds: Interval | None) -> Interval | None:
    """Return the ends of the scale; None when they are unknown, endless or wrong. Values of 0 and 100 are shares.

    A value may pass an end by rounding.
    """
    if bounds is None:
        return PERCENT if np.isin(values, PERCENT).all() else None
    low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return None
    slack = ROUNDING * (high - low)
    return (low, high) if low - slack <= values.min() and values.max() <= high + slack else None


def within_scale(found: Interval | None, measure: Measure, values: Sequence[Any]) -> list[float] | None:
    """Return the interval cut to the scale of a measure, as a list for JSON; values of 0 and 100 alone are shares."""
    if found is None:
        return None
    bounds = measure.bounds
    if bounds is None and all(value in PERCENT for value in values):
        bounds = PERCENT
    low, high = bounds or (-math.inf, math.inf)
    return [max(low, found[0]), min(high, found[1])]
