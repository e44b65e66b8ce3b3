"""Comparison of two systems on the same samples, and of many: the difference, its interval, and whether one is ahead.

This is the one rule by which kshot calls a system ahead: models, search engines, and lookup tasks.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kshot.core.errors import DataError
from kshot.statistics.permutation import LEVEL, sign_flips, swaps
from kshot.statistics.resampling import (
    FloatArray,
    Interval,
    Reduce,
    Values,
    are_numbers,
    are_sums,
    is_mean,
    mean,
    middle_95,
    numbers_of,
    paired_bootstrap,
    sequence_of,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """The values of two systems on the same samples, in one order, and how they become a figure.

    ``bounds`` are the ends of the scale, where they are known. ``weights``: the figure is the mean of the values by
    these weights, such as an average over subsets, in which a sample of a small subset counts more. ``singles``: the
    figures of each sample alone in both systems, where they are known; to compute BLEU of each takes long.
    """

    a: Values
    b: Values
    reduce: Reduce = mean
    higher_is_better: bool = True
    bounds: Interval | None = None
    weights: Sequence[float] | FloatArray | None = None
    singles: tuple[FloatArray, FloatArray] | None = None


@dataclass(frozen=True, slots=True)
class Paired:
    """What a comparison found. ``difference`` is that of the figures, a - b; a wins where it is better than b.

    ``p`` is that of the permutation test. ``p_corrected`` is the same after Holm's correction for the ``family`` of
    comparisons that were made together.
    """

    difference: float
    interval: Interval | None
    p: float
    wins: int
    losses: int
    ties: int
    p_corrected: float
    family: int = 1

    @property
    def decided(self) -> bool:
        """Whether one system is ahead: whether the corrected p is below 5 %."""
        return self.p_corrected < LEVEL


def compare(family: Sequence[Pair]) -> list[Paired]:
    """Compare each pair, and correct the p of all of them together.

    If all systems are equal, the chance that any comparison of the family is decided is at most 5 %. If some differ,
    the same holds for the others.
    """
    found = [_compared(pair) for pair in family]
    corrected = holm([each.p for each in found])
    return [replace(each, p_corrected=p, family=len(found)) for each, p in zip(found, corrected, strict=True)]


def compare_by_family(found: Sequence[tuple[Hashable, Pair]]) -> list[Paired]:
    """Compare each pair, and correct together the p of those that have the same key; the order stays."""
    families: dict[Hashable, list[int]] = {}
    for at, (family, _) in enumerate(found):
        families.setdefault(family, []).append(at)
    verdicts = {
        at: verdict
        for places in families.values()
        for at, verdict in zip(places, compare([found[at][1] for at in places]), strict=True)
    }
    return [verdicts[at] for at in range(len(found))]


def averaged(subsets: Sequence[Pair], *, weighted: bool) -> Pair | None:
    """Join the pairs of all subsets of a dataset: a sample weighs as in the average of the subsets' figures.

    ``weighted``: subsets count by their size. None where there is no subset or an empty one, and for figures that are
    not means.
    """
    values = [(sequence_of(pair.a), sequence_of(pair.b)) for pair in subsets]
    if not values or not all(a and _of_means(pair.reduce, a, b) for pair, (a, b) in zip(subsets, values, strict=True)):
        return None
    ones, others = (np.concatenate(each) for each in zip(*values, strict=True))
    weights = np.concatenate([np.full(len(pair.a), 1.0 if weighted else 1 / len(pair.a)) for pair in subsets])
    first = subsets[0]
    return Pair(ones, others, mean, first.higher_is_better, first.bounds, weights)


def paired(
    a: Values,
    b: Values,
    reduce: Reduce = mean,
    *,
    higher_is_better: bool = True,
    bounds: Interval | None = None,
) -> Paired:
    """Compare a with b, sample by sample; a comparison that stands alone."""
    return compare([Pair(a, b, reduce, higher_is_better, bounds)])[0]


def holm(ps: Sequence[float]) -> list[float]:
    """Return Holm's corrected p: the smallest times their number, the next times one less, and so on; none falls."""
    corrected, highest = [0.0] * len(ps), 0.0
    for done, at in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        highest = max(highest, min(1.0, (len(ps) - done) * ps[at]))
        corrected[at] = highest
    return corrected


def _compared(pair: Pair) -> Paired:
    a, b, reduce = sequence_of(pair.a), sequence_of(pair.b), pair.reduce
    if len(a) != len(b) or not a:
        raise DataError(
            f"a paired comparison got {len(a)} and {len(b)} values", hint="Give one value per sample, in one order."
        )
    figures = _figures(pair)
    if figures is None:
        raise DataError(
            "a paired comparison got values without a figure", hint="Leave such pairs out: see has_figures."
        )
    of_means = _of_means(reduce, a, b)
    if of_means:
        better, worse = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    else:
        better, worse = pair.singles or (numbers_of(reduce([value]) for value in values) for values in (a, b))
    if not pair.higher_is_better:
        better, worse = worse, better
    wins, losses = int((better > worse).sum()), int((better < worse).sum())
    p, interval = _tested(pair, a, b, of_means=of_means)
    return Paired(
        difference=figures[0] - figures[1]
        if pair.weights is None
        else float(np.average(_gaps(a, b), weights=pair.weights)),
        interval=interval if len(a) > 1 else None,
        p=p,
        wins=wins,
        losses=losses,
        ties=len(a) - wins - losses,
        p_corrected=p,
    )


def has_figures(pair: Pair) -> bool:
    """Whether both systems have a figure on these samples; else there is nothing to compare."""
    return _figures(pair) is not None


def _figures(pair: Pair) -> tuple[float, float] | None:
    one, other = (pair.reduce(sequence_of(values)) for values in (pair.a, pair.b))
    return None if one is None or other is None else (one, other)


def _of_means(reduce: Reduce, a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether the figures of two systems are the means of their values."""
    return are_numbers(a) and is_mean(reduce, a) and is_mean(reduce, b)


def _tested(pair: Pair, a: Sequence[Any], b: Sequence[Any], *, of_means: bool) -> tuple[float, Interval | None]:
    """Return p and the interval of the difference; values that are not finite tell nothing."""
    measured = [values for values in (a, b) if are_numbers(values) or are_sums(values)]
    if not all(np.isfinite(np.asarray(values, dtype=np.float64)).all() for values in measured):
        return 1.0, None
    if not of_means:
        drawn = paired_bootstrap(a, b, pair.reduce) if len(a) > 1 else np.empty(0)
        interval = middle_95(drawn, len(a)) if len(drawn) else None
        return swaps(a, b, pair.reduce), interval
    gaps = _gaps(a, b)
    with np.errstate(over="ignore"):
        size = float(np.abs(gaps).sum())
    if not math.isfinite(size):
        return 1.0, None
    width = math.inf if pair.bounds is None else pair.bounds[1] - pair.bounds[0]
    weights = None if pair.weights is None else np.asarray(pair.weights, dtype=np.float64)
    return sign_flips(
        gaps,
        largest=width if math.isfinite(width) else None,
        weights=None if weights is None else weights / weights.mean(),
    )


def _gaps(a: Values, b: Values) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
