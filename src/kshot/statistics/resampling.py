"""Bootstrap resamples of a figure, with a fixed seed, in bounded memory."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kshot.core.metric import MEAN, Observation

Z = 1.959963984540054
"""The 97.5 % point of the normal distribution."""

_EXACT = {1: 12.706204736432095, 2: 4.302652729911275}
_TERMS = (((1, 1), 4), ((3, 16, 5), 96), ((-15, 17, 19, 3), 384), ((-945, -1920, 1482, 776, 79), 92160))
"""The polynomials of Fisher and Cornish's expansion: coefficients of z, z³, z⁵ …, and what divides them."""


def student_point(degrees: float) -> float:
    """Return the 97.5 % point of Student's t; below 3 degrees of freedom that of the next lower whole number."""
    if degrees < 3:  # noqa: PLR2004 - the expansion holds from 3
        return _EXACT[max(1, math.floor(degrees))]
    found = Z
    for power, (coefficients, divisor) in enumerate(_TERMS, start=1):
        found += sum(c * Z ** (2 * k + 1) for k, c in enumerate(coefficients)) / divisor / degrees**power
    return found


def normal_share(deviate: float) -> float:
    """Return the share of a normal distribution below a deviate."""
    return math.erfc(-deviate / math.sqrt(2)) / 2


RESAMPLES = 1000
MIN_RESAMPLES = 200
MAX_DRAWS = 200_000_000
"""Draws over all resamples; where there would be more, there are fewer resamples."""

SEED = 20240607

_FAST_ROWS, _SHORT_ROW = 10, 320
"""Rows of a product that are computed together; of rows that are shorter than this, more of them."""

Reduce: TypeAlias = Callable[[Sequence[Any]], float | None]
"""Turns values into a figure, as an ``Aggregate`` does; None where they have none."""
Interval: TypeAlias = tuple[float, float]
FloatArray: TypeAlias = NDArray[np.float64]
Values: TypeAlias = Sequence[Any] | FloatArray
"""The values of samples: a sequence; or an array, with a row for each sample where values are tuples."""


def sequence_of(values: Values) -> Sequence[Any]:
    """Return values as a sequence: what sums them up may be a metric of a user, and knows no arrays."""
    if not isinstance(values, np.ndarray):
        return values
    return (
        array("d", values.astype(np.float64).tobytes()) if values.ndim == 1 else [tuple(row) for row in values.tolist()]
    )


mean = MEAN


def are_numbers(values: Sequence[Any]) -> bool:
    """Whether values are numbers, rather than tuples or observations."""
    return isinstance(values, array) or not any(isinstance(value, tuple | Observation) for value in values)


def are_sums(values: Sequence[Any]) -> bool:
    """Whether values are tuples of numbers."""
    return all(isinstance(value, tuple) and not any(isinstance(v, Observation) for v in value) for value in values)


def resamples(n: int) -> int:
    """Return how many bootstrap resamples are drawn for n values."""
    return max(MIN_RESAMPLES, min(RESAMPLES, MAX_DRAWS // n))


def middle_95(figures: FloatArray, n: int) -> Interval:
    """Return the ends between which the middle 95 % of the figures lie.

    Resamples of n values vary less than samples do, so the ends lie further out: as far as Student's t from the normal.
    """
    tail = normal_share(-math.sqrt(n / (n - 1)) * student_point(n - 1))
    low, high = np.quantile(figures, (tail, 1 - tail))
    return (float(low), float(high))


def bootstrap(values: Sequence[Any], reduce: Reduce) -> FloatArray:
    """Return the figures of the resamples, computed one at a time to bound memory; every call draws the same.

    The values are sorted first, so that their order does not matter. A resample without a figure is left out.
    """
    figures = _resampled([sorted(values)], reduce)[:, 0]
    return figures[~np.isnan(figures)]


def paired_bootstrap(a: Sequence[Any], b: Sequence[Any], reduce: Reduce) -> FloatArray:
    """Return the differences of the two figures over resamples of the samples, whatever their order.

    A resample in which a system has no figure is left out.
    """
    pairs, turned = sorted(zip(a, b, strict=True)), sorted(zip(b, a, strict=True))
    first = max(pairs, turned)  # the same way round, whichever system is named first
    figures = _resampled([[pair[side] for pair in first] for side in (0, 1)], reduce)
    difference: FloatArray = figures[:, 0] - figures[:, 1]
    difference = difference[~np.isnan(difference)]
    return difference if first == pairs else -difference


def _resampled(systems: Sequence[Sequence[Any]], reduce: Reduce) -> FloatArray:
    """Return the figures of each resample, a column for each system; not a number where there is none."""
    figures = [_figures_of_counts(values, reduce) for values in systems]
    return np.concatenate([np.stack([each(drawn) for each in figures], axis=1) for drawn in _draws(len(systems[0]))])


def _draws(n: int) -> Iterator[NDArray[np.int64]]:
    """Yield resamples of n values, some at a time: how often each value was drawn."""
    count, draws = resamples(n), np.random.default_rng(SEED)
    for done in range(0, count, _FAST_ROWS):
        drawn = [np.bincount(draws.integers(n, size=n), minlength=n) for _ in range(min(_FAST_ROWS, count - done))]
        yield np.stack(drawn)


def bootstrap_samples(values: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield the resamples that ``bootstrap`` draws of these values, for figures that are computed ahead, many at once.

    They are what ``reduce`` gets where a figure depends on more than sums.
    """
    ordered, every = sorted(values), np.arange(len(values))
    for drawn in _draws(len(values)):
        yield from ([ordered[int(i)] for i in np.repeat(every, row)] for row in drawn)


def _figures_of_counts(values: Sequence[Any], reduce: Reduce) -> Callable[[NDArray[np.int64]], FloatArray]:
    """Return the function from resamples, given as how often each value was drawn, to their figures."""
    if are_numbers(values) and is_mean(reduce, values):
        column = np.asarray(values, dtype=np.float64)[:, None]
        return lambda counts: products(counts, column)[:, 0] / len(column)
    if depends_on_sums(values, reduce):
        table: FloatArray = np.asarray(values, dtype=np.float64)
        return lambda counts: numbers_of(reduce([tuple(sums)]) for sums in products(counts, table).tolist())
    every = np.arange(len(values))
    return lambda counts: numbers_of(reduce([values[int(i)] for i in np.repeat(every, row)]) for row in counts)


def numbers_of(figures: Iterable[float | None]) -> FloatArray:
    """Return figures as an array: not a number where there is none."""
    return np.array([math.nan if figure is None else figure for figure in figures], dtype=np.float64)


def products(rows: NDArray[Any], table: FloatArray) -> FloatArray:
    """Return the product of many rows with a narrow table.

    It is computed for a few rows at a time: BLAS takes up to 40 times as long for one row, or for many rows.
    """
    step = max(_FAST_ROWS, _FAST_ROWS * _SHORT_ROW // max(len(table), 1))
    return np.concatenate([rows[at : at + step].astype(np.float64) @ table for at in range(0, len(rows), step)])


def depends_on_sums(values: Sequence[Any], reduce: Reduce) -> bool:
    """Tell whether the figure of tuples depends on their sums alone."""
    if not are_sums(values):
        return False
    table: FloatArray = np.asarray(values, dtype=np.float64)
    of_sums, of_all = reduce([_as_tuple(table.sum(axis=0))]), reduce(values)
    return of_sums is not None and of_all is not None and math.isclose(of_sums, of_all, rel_tol=1e-6, abs_tol=1e-9)


def is_mean(reduce: Reduce, values: Sequence[Any]) -> bool:
    """Tell whether ``reduce`` is the mean: whether it equals the mean of all values and of uneven parts of them."""
    if reduce is mean:
        return True
    parts = (values, values[:1], values[: (len(values) + 2) // 3], values[::2])
    figures = [(reduce(part), mean(part)) for part in parts]
    return all(own is not None and math.isclose(own, other, rel_tol=1e-9, abs_tol=1e-9) for own, other in figures)


def _as_tuple(sums: FloatArray) -> tuple[float, ...]:
    return tuple(float(part) for part in sums)
