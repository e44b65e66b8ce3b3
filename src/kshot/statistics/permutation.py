"""Tests that keep their level whatever the distribution: sign flips and swaps of pairs, exact sign and share tests.

If two systems are equal, each pair of values could as well be the other way round. The p of a difference is the share
of all such swaps that give a difference at least as large. Few pairs: all swaps are tried. Many: 9,999 random ones,
with a fixed seed. The order of the samples and of the systems does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kshot.statistics.intervals import bounded_interval
from kshot.statistics.resampling import SEED, FloatArray, Interval, Reduce, depends_on_sums, products

ValuePair: TypeAlias = tuple[Any, Any]
FiguresAfter: TypeAlias = Callable[[NDArray[np.bool_]], Iterator[tuple[float | None, float | None]]]
"""From swaps of the pairs that differ, one in each row, to both figures after each."""

LEVEL = 0.05
FLIPS = 9_999
MIN_FLIPS = 199
MAX_DRAWS = 1_000_000_000
"""Draws over all random swaps: 100,000 pairs that differ take some seconds. With more pairs there are fewer swaps."""

_MAX_TRIED = 13
"""With so many pairs that differ, all swaps are tried: 8,192."""

_BLOCK_DRAWS = 1_000_000
"""Draws that are held in memory at a time."""

_MIN_DIFFERENT = 6
"""With fewer pairs that differ, no swap test reaches 5 %: 2 of 32 swaps are the samples themselves and their mirror."""

_ROUNDING = 1e-9
_FEW_HITS = 20
_ENOUGH_HITS = 200
"""So many random swaps as extreme as the samples themselves tell p well enough (Besag and Clifford, 1991)."""

_LIST_SWAPS, _LIST_DRAWS = 999, 20_000_000
"""Random swaps, and draws over all of them, where a figure has to be computed from all values, which may take long."""


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided exact binomial p: the chance that a fair coin lands at least this unevenly."""
    n, fewer = wins + losses, min(wins, losses)
    # log C(n, i) for i = 0…fewer, from the ratios of neighbours, so that no factorial overflows
    steps = np.arange(1, fewer + 1, dtype=np.float64)
    logs = np.concatenate([[0.0], np.cumsum(np.log((n - steps + 1) / steps))])
    return min(1.0, 2 * float(np.exp(logs - n * math.log(2)).sum()))


def share_test(right: int, n: int, other_right: int, other_n: int) -> float:
    """Return Fisher's two-sided exact p for the shares of two independent samples."""
    total, both = right + other_right, n + other_n
    possible = np.arange(max(0, total - other_n), min(total, n) + 1)
    logs = np.array([_log_choices(n, int(k)) + _log_choices(other_n, int(total - k)) for k in possible])
    chances = np.exp(logs - _log_choices(both, total))
    return min(1.0, float(chances[chances <= chances[right - possible[0]] * (1 + 1e-7)].sum()))


def _log_choices(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


# ---- means ----


def sign_flips(
    gaps: FloatArray, *, largest: float | None = None, weights: FloatArray | None = None
) -> tuple[float, Interval]:
    """Return the p of a mean difference by sign flips, and the 95 % interval that belongs to this test.

    The interval has the differences that the test would not reject, so it excludes 0 exactly if p is below 5 %.
    ``largest`` is the largest difference that the scale allows; it bounds what a few pairs that differ can show.
    ``weights`` are those of the differences in a weighted mean, 1 on average.
    """
    if weights is not None and float(np.ptp(weights)) > _ROUNDING:
        return _weighted_flips(gaps, weights, largest)
    different = gaps[gaps != 0]
    size = float(np.abs(different).max(initial=0.0))
    if not len(different) or float(np.ptp(np.abs(different))) <= _ROUNDING * size:  # right or wrong: McNemar's test
        end = size or largest or 0.0
        wins = int((different > 0).sum())
        return sign_test(wins, len(different) - wins), bounded_interval(gaps, -end, end) if end else (0.0, 0.0)
    turned = _is_turned(different)
    ordered = -different if turned else different
    ordered = ordered[np.lexsort((ordered, np.abs(ordered)))]
    p, interval = _flipped(ordered, np.ones(len(ordered)), np.ones(len(gaps) - len(ordered)))
    if len(ordered) < _MIN_DIFFERENT:
        end = max(size, largest or 0.0)
        return p, bounded_interval(gaps, -end, end)
    return p, (-interval[1], -interval[0]) if turned else interval


def _weighted_flips(gaps: FloatArray, weights: FloatArray, largest: float | None) -> tuple[float, Interval]:
    """Test a weighted mean: flipping a difference moves the mean by its weight."""
    turned = _is_turned(gaps * weights)
    signed = np.where(turned, -1.0, 1.0) * gaps * weights
    order = np.lexsort((weights, signed, np.abs(signed)))
    signed, weights = signed[order], weights[order]
    differ = signed != 0
    if int(differ.sum()) < _MIN_DIFFERENT:
        end = float(weights.max()) * (largest or float(np.abs(gaps).max()))
        p = _flipped(signed[differ], weights[differ], weights[~differ])[0] if differ.any() else 1.0
        low, high = bounded_interval(signed, -end, end) if end else (0.0, 0.0)
    else:
        p, (low, high) = _flipped(signed[differ], weights[differ], weights[~differ])
    return p, (-high, -low) if turned else (low, high)


def _is_turned(gaps: FloatArray) -> bool:
    """Choose a way round for differences, the same whichever system is named first."""
    one, other = np.sort(gaps), np.sort(-gaps)
    unequal = np.flatnonzero(one != other)
    return len(unequal) > 0 and bool(one[unequal[0]] < other[unequal[0]])


def _flipped(gaps: FloatArray, weights: FloatArray, ties: FloatArray) -> tuple[float, Interval]:
    """Test differences that are not 0, and return the 95 % interval of the mean of these and of ties, by weight.

    A sum above 0 grows by flipping a part of the differences exactly if this part adds up to 0 or less. The test does
    not reject a difference that lies in the middle 95 % of the means of such parts (Hartigan's typical values).
    """
    total = float(gaps.sum())
    tolerance = _ROUNDING * float(np.abs(gaps).sum())
    sums, sizes, exact = _parts(gaps, weights)
    draws = np.random.default_rng(SEED)
    for weight, count in zip(*np.unique(ties, return_counts=True), strict=True):
        sizes = sizes + weight * draws.binomial(count, 0.5, size=len(sizes))
    means = sums / np.maximum(sizes, min(weights.min(), ties.min(initial=np.inf)))
    hits = int((sums <= tolerance if total > 0 else sums >= -tolerance).sum())
    if abs(total) <= tolerance:
        p = 1.0
    elif exact:
        p = min(1.0, 2 * hits / len(sums))
    else:
        p = min(1.0, (hits + 1) / (len(sums) / 2 + 1))
        if hits < _FEW_HITS:
            p = min(p, _chernoff(gaps, abs(total)))
    # as many means lie outside as there can be hits while p is below the level
    outside = math.ceil(LEVEL * len(sums) / 2) - 1 if exact else math.ceil(LEVEL * (len(sums) / 2 + 1)) - 2
    ordered = np.sort(np.where(np.abs(sums) <= tolerance, 0.0, means))
    return p, (float(ordered[outside]), float(ordered[-1 - outside]))


def _parts(gaps: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, bool]:
    """Return the sums and the weights of parts of the differences; and whether these are all parts that there are.

    With each part comes the rest.
    """
    exact = len(gaps) <= _MAX_TRIED
    both = np.stack([gaps, weights], axis=1)
    blocks = _all_swaps(len(gaps)) if exact else _random_swaps(len(gaps))
    one, count = np.concatenate([products(block, both) for block in blocks]).T
    if exact:  # often enough for the number of ties, which is drawn for each
        times = max(1, FLIPS // len(one))
        return np.tile(one, times), np.tile(count, times), exact
    return np.concatenate([one, gaps.sum() - one]), np.concatenate([count, weights.sum() - count]), exact


def _chernoff(gaps: FloatArray, total: float) -> float:
    """Return a number that p cannot exceed, for differences that next to no random flip reaches.

    For every s, ``P(S ≥ total) ≤ exp(Σ log cosh(s·gap) - s·total)``; the best s is found by Newton's steps.
    """
    scaled = np.abs(gaps) / float(np.abs(gaps).max())
    goal, s = total / float(np.abs(gaps).max()), 0.0
    for _ in range(60):
        tanh = np.tanh(s * scaled)
        slope = float((scaled * scaled * (1 - tanh * tanh)).sum())
        step = (goal - float((scaled * tanh).sum())) / slope if slope > _ROUNDING else 0.0
        s += min(step, 1.0)  # a sum of hyperbolic tangents is concave: an unbounded step would go too far
    at = np.abs(s * scaled)
    return min(1.0, 2 * math.exp(float((at + np.log1p(np.exp(-2 * at)) - math.log(2)).sum()) - s * goal))


# ---- other figures ----


def swaps(a: Sequence[Any], b: Sequence[Any], reduce: Reduce) -> float:
    """Return the p of the difference of two figures that are not means: pairs are swapped, both figures computed anew.

    A figure that depends on sums alone is computed from these. Random swaps end early where p is large.
    """
    pairs, others = sorted(zip(a, b, strict=True)), sorted(zip(b, a, strict=True))
    pairs = max(pairs, others)  # the same way round, whichever system is named first
    different = [pair for pair in pairs if pair[0] != pair[1]]
    if not different:
        return 1.0
    summed = all(depends_on_sums([pair[side] for pair in pairs], reduce) for side in (0, 1))
    figures = _of_sums(pairs, different, reduce) if summed else _of_lists(pairs, different, reduce)
    ends = reduce([x for x, _ in pairs]), reduce([y for _, y in pairs])
    if ends[0] is None or ends[1] is None:
        return 1.0
    seen = abs(ends[0] - ends[1]) * (1 - _ROUNDING)
    exact = len(different) <= _MAX_TRIED
    limits = (FLIPS, MAX_DRAWS) if summed else (_LIST_SWAPS, _LIST_DRAWS)
    blocks = _all_swaps(len(different)) if exact else _random_swaps(len(different), *limits)
    hits = tried = 0
    for one, other in chain.from_iterable(map(figures, blocks)):
        hits += one is None or other is None or abs(one - other) >= seen  # what is not known speaks for chance
        tried += 1
        if not exact and hits >= _ENOUGH_HITS:
            return hits / tried
    return hits / tried if exact else (hits + 1) / (tried + 1)


def _of_sums(pairs: Sequence[ValuePair], different: Sequence[ValuePair], reduce: Reduce) -> FiguresAfter:
    first, second = (np.asarray([pair[side] for pair in pairs], dtype=np.float64).sum(axis=0) for side in (0, 1))
    left, right = (np.asarray([pair[side] for pair in different], dtype=np.float64) for side in (0, 1))
    moved = right - left

    def figures(block: NDArray[np.bool_]) -> Iterator[tuple[float | None, float | None]]:
        change = products(block, moved)
        for one, other in zip((first + change).tolist(), (second - change).tolist(), strict=True):
            yield reduce([tuple(one)]), reduce([tuple(other)])

    return figures


def _of_lists(pairs: Sequence[ValuePair], different: Sequence[ValuePair], reduce: Reduce) -> FiguresAfter:
    same = [x for x, y in pairs if x == y]

    def figures(block: NDArray[np.bool_]) -> Iterator[tuple[float | None, float | None]]:
        for swap in block:
            turned = [(y, x) if turn else (x, y) for (x, y), turn in zip(different, swap, strict=True)]
            yield reduce([*same, *(x for x, _ in turned)]), reduce([*same, *(y for _, y in turned)])

    return figures


# ---- which pairs are swapped ----


def _all_swaps(n: int) -> Iterator[NDArray[np.bool_]]:
    yield (np.arange(2**n)[:, None] >> np.arange(n)) % 2 == 1


def _random_swaps(n: int, most: int = FLIPS, most_draws: int = MAX_DRAWS) -> Iterator[NDArray[np.bool_]]:
    """Yield which pairs are swapped, in blocks that fit into memory; every call draws the same."""
    draws = np.random.default_rng(SEED)
    count = max(MIN_FLIPS, min(most, most_draws // n))
    block = max(1, _BLOCK_DRAWS // n)
    for done in range(0, count, block):
        rows = min(block, count - done)
        bits = np.frombuffer(draws.bytes(-(-rows * n // 8)), dtype=np.uint8)
        yield np.unpackbits(bits, count=rows * n).reshape(rows, n).astype(np.bool_)
