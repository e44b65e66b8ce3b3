"""Verdicts where the truth is known: equal systems that are called ahead, and better ones that are found.

The code under test is that of a run: ``sign_flips``, ``sign_test``, ``swaps``, ``holm``, ``corrected_gaps``, ``falls``.
"""

from __future__ import annotations

import functools
import math
from itertools import combinations

import numpy as np

from benchmarks.simulated_intervals import CORPORA, LIMITS, SCORES, Cell, corpus
from kshot.runs.results import corrected_gaps, falls
from kshot.statistics import holm, sign_test
from kshot.statistics.permutation import LEVEL, sign_flips, swaps

_UNDECIDED = 0.15
"""A p of the normal formula above which no test is decided."""

# ---- equal systems ----


def systems(kind: str, count: int, n: int, rng, *, ahead: float = 0.0):
    """Draw the scores of systems on the same samples; half the samples are equally hard for all of them.

    ``ahead`` is how much the first one is better: the chance that it solves a sample which it would not solve.
    """
    if kind == "right or wrong":
        common, own = rng.random(n) < 0.6, rng.random((count, n)) < 0.6
    else:
        of = SCORES["ranks, 70 % zeros"]
        common, own = (rng.choice(of.points, size=size, p=of.chances) for size in (n, (count, n)))
    values = np.where(rng.random(n) < 0.5, common, own).astype(float)
    values[0] = np.where(rng.random(n) < ahead, 1.0, values[0])
    return values


@functools.cache
def _sign_test(wins: int, losses: int) -> float:
    return sign_test(wins, losses)


def p_of(kind: str, gaps, *, least: float) -> float:
    """Return the p of kshot's test; where it is far above ``least`` by the normal formula, that of the formula.

    The formula spares the simulation nine of ten tests, and none that could be decided.
    """
    if kind == "right or wrong":
        return _sign_test(int((gaps > 0).sum()), int((gaps < 0).sum()))
    rough = _rough(gaps)
    return rough if rough > least else sign_flips(gaps)[0]


def _rough(gaps) -> float:
    """Return the p of the normal formula."""
    squares = float((gaps**2).sum())
    return math.erfc(abs(float(gaps.sum())) / math.sqrt(2 * squares)) if squares else 1.0


def family_cell(kind: str, count: int, n: int, simulations: int, seed: int) -> list[Cell]:
    """Measure how often any of several equal systems is called ahead of another."""
    rng = np.random.default_rng([seed, count, n, *kind.encode()])
    wrong = 0
    for _ in range(simulations):
        values = systems(kind, count, n, rng)
        ps = [p_of(kind, values[i] - values[j], least=_UNDECIDED) for i, j in combinations(range(count), 2)]
        wrong += min(holm(ps)) < LEVEL
    share = 100 * wrong / simulations
    limit = LIMITS["pairs" if count == 2 else "families"]
    return [Cell("false", f"{count} systems, {kind}", str(n), share, share <= limit)]


SUBSETS = {"3 subsets of 40": (40, 40, 40), "subsets of 5, 20 and 100": (5, 20, 100)}


def average_verdict_cell(name: str, kind: str, simulations: int, seed: int) -> list[Cell]:
    """Measure how often one of two equal systems is called ahead by the macro average over subsets."""
    rng = np.random.default_rng([seed, *name.encode(), *kind.encode()])
    weights = np.concatenate([np.full(n, 1 / n) for n in SUBSETS[name]])
    weights /= weights.mean()
    wrong = 0
    for _ in range(simulations):
        values = np.hstack([systems(kind, 2, n, rng) for n in SUBSETS[name]])
        gaps = values[0] - values[1]
        rough = _rough(gaps * weights)
        wrong += rough <= _UNDECIDED and sign_flips(gaps, largest=1.0, weights=weights)[0] < LEVEL
    share = 100 * wrong / simulations
    return [Cell("false averages", name, kind, share, share <= LIMITS["pairs"])]


def swap_cell(kind: str, n: int, simulations: int, seed: int) -> list[Cell]:
    """Measure how often one of two equal systems is called ahead by the perplexity of the whole corpus."""
    reduce, rng = CORPORA[kind][0], np.random.default_rng([seed, n, 3, *kind.encode()])
    wrong = 0
    for _ in range(simulations):
        one, other = corpus(kind, n, rng, systems=2)
        gaps = np.array([x[0] - y[0] for x, y in zip(one, other, strict=True)])  # nats; both have the same tokens
        wrong += _rough(gaps) <= _UNDECIDED and swaps(one, other, reduce) < LEVEL
    share = 100 * wrong / simulations
    return [Cell("false corpus figures", kind, str(n), share, share <= LIMITS["pairs"])]


def power_cell(kind: str, count: int, n: int, simulations: int, seed: int) -> list[Cell]:
    """Measure how often a system that is better is found to be ahead of another one, among several."""
    rng = np.random.default_rng([seed, count, n, 7, *kind.encode()])
    found = 0
    for _ in range(simulations):
        values = systems(kind, count, n, rng, ahead=0.3)
        ps = [p_of(kind, values[i] - values[j], least=0.3) for i, j in combinations(range(count), 2)]
        found += holm(ps)[0] < LEVEL and values[0].mean() > values[1].mean()
    share = 100 * found / simulations
    ok = n < 200 or share >= LIMITS["power"]
    return [Cell("power", f"{count} systems, {kind}", str(n), share, ok)]


def lookup_cell(p: float, simulations: int, seed: int) -> list[Cell]:
    """Measure how often a lookup run without any effect has a finding: 6 tasks, 5 lengths, 2 variants, 50 records."""
    rng = np.random.default_rng([seed, round(1000 * p)])
    tasks = ("UL", "UR", "NLFirst", "NRFirst", "NLLast", "NRLast")
    gaps = ((1, 0), (3, 2), (5, 4), (4, 2), (5, 3))
    any_fall = any_gap = 0
    for _ in range(simulations):
        right = rng.random((2, 5, 6, 50)) < p
        cells = [
            {"kind": "lookup", "model": "m", "variant": str(v), "lookup": task, "length": length, "n": 50,
             "value": 2.0 * int(right[v, length, t].sum())}
            for v in range(2) for length in range(5) for t, task in enumerate(tasks)
        ]  # fmt: skip
        rows = []
        for v in range(2):
            for length in range(5):
                for better, worse in gaps:
                    gap = right[v, length, better].astype(float) - right[v, length, worse]
                    p_gap = _sign_test(int((gap > 0).sum()), int((gap < 0).sum()))
                    rows.append({"gap": "", "better": "", "worse": "", "value": gap.sum(), "p": p_gap})
        any_fall += bool(falls(cells))
        any_gap += any(row["ahead"] is not None for row in corrected_gaps(rows))
    found = {"a fall": any_fall, "a gap": any_gap}
    return [
        Cell("lookup", what, f"{100 * p:g} % right", 100 * hits / simulations, 100 * hits / simulations <= 6)
        for what, hits in found.items()
    ]
