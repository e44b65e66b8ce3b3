"""95 % intervals of the mean of scores that lie between two known ends: Clopper and Pearson's, for scores of any value.

Clopper and Pearson's upper end for x right answers of n is the 97.5 % point of a Beta(x + 1, n - x) distribution. That
is the distribution of a mean whose weights are random (Dirichlet), over the n answers and one more at the upper end
of the scale. The same distribution exists for answers of any value between the ends, and its 97.5 % point is the
upper end here; the lower end is its mirror image (Learned-Miller and Thomas, 2020). The added answer stands for what
the sample has not shown: where nearly all scores are equal, the sample's own spread says little.

With exponential variables E the weighted mean is at most t exactly if ``Σ E·(v - t) ≤ 0``. The chance of that is
computed by its saddlepoint approximation: no random numbers, and ends that are right within about 1 %.
"""

from __future__ import annotations

import numpy as np

from kshot.statistics.quantiles import Z
from kshot.statistics.resampling import FloatArray

_HALVINGS = 44
_LARGEST_TILT = 45.0
"""At this tilt nearly all weight lies on the added score, whatever the others are."""

_MAX_DISTINCT = 10_000
"""Scores with more distinct values are rounded to this many steps of the scale first."""

_NO_TILT = 1e-9


def bounded_interval(values: FloatArray, low: float, high: float) -> tuple[float, float]:
    """Return the 95 % interval of the mean of values between ``low`` and ``high``."""
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
