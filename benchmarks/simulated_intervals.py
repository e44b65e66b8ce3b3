"""Intervals where the truth is known: how often they cover it, and how wide they are.

The code under test is that of a run: ``interval``, ``macro_interval``, and what they call.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from kshot.metrics import Bleu, Perplexity
from kshot.statistics import interval, macro_interval
from kshot.statistics.intervals import bounded_ends
from kshot.statistics.resampling import Z, student_point

SIZES = (20, 50, 122, 200)
LIMITS = {
    "scores": 93.0,
    "right or wrong": 92.0,
    "averages": 92.0,
    "averages of scores": 93.0,
    "corpus figures": 90.0,
    "pairs": 5.5,
    "families": 6.0,
    "power": 50.0,
}
BLOCK = 1000
CHECKED = 5
"""Samples of a block whose interval is computed by ``interval`` as well; and as many of those at the ends alone."""


class Cell(NamedTuple):
    """One figure of a table: the table, its row and column, what was measured, and the limit that it must keep."""

    table: str
    row: str
    column: str
    value: float
    ok: bool = True


# ---- scores between 0 and 1 ----


class Discrete(NamedTuple):
    """Scores that take a few values."""

    points: tuple[float, ...]
    chances: tuple[float, ...]

    @property
    def mean(self):
        """The true mean."""
        return float(np.dot(self.points, self.chances))

    def draw(self, rng, count, n):
        """Draw samples, as values and how often each occurs."""
        counts = rng.multinomial(n, self.chances, size=count).astype(float)
        return np.tile(self.points, (count, 1)), counts


class Beta(NamedTuple):
    """Scores of a beta distribution."""

    a: float
    b: float

    @property
    def mean(self):
        """The true mean."""
        return self.a / (self.a + self.b)

    def draw(self, rng, count, n):
        """Draw samples, as values and how often each occurs."""
        return rng.beta(self.a, self.b, (count, n)), np.ones((count, n))


RANKS = tuple(1 / rank for rank in range(1, 11))


def ranks(zeros: float, ones: float) -> Discrete:
    """Return reciprocal ranks: so many zeros, so many ones, and the other ranks alike."""
    rest = (1 - zeros - ones) / 9
    return Discrete((0.0, *RANKS), (zeros, ones, *[rest] * 9))


SCORES = {
    "ranks, 70 % zeros": ranks(0.7, 0.1),
    "ranks, 90 % zeros": ranks(0.9, 0.05),
    "ranks, 95 % zeros": ranks(0.95, 0.01),
    "ranks, 98 % zeros": ranks(0.98, 0.01),
    "ranks, 80 % ones": ranks(0.05, 0.8),
    "ranks, 95 % ones": ranks(0.01, 0.95),
    "0, ½ or 1": Discrete((0.0, 0.5, 1.0), (0.3, 0.4, 0.3)),
    "0 or 0.9, 5 %": Discrete((0.0, 0.9), (0.95, 0.05)),
    "0.1, and 1 % ones": Discrete((0.1, 1.0), (0.99, 0.01)),
    "99 % zeros, else ½ or 1": Discrete((0.0, 0.5, 1.0), (0.99, 0.005, 0.005)),
    "98.9 % ones, 1 % zeros": Discrete((0.0, 0.9, 1.0), (0.01, 0.001, 0.989)),
    "uniform": Beta(1, 1),
    "beta (0.2, 2)": Beta(0.2, 2),
    "beta (5, 1)": Beta(5, 1),
    "beta (0.1, 0.1)": Beta(0.1, 0.1),
}


def moments(points, counts):
    """Return the size, the means and the sums of squared distances of samples."""
    n = counts.sum(axis=1)
    means = (points * counts).sum(axis=1) / n
    return n, means, (counts * (points - means[:, None]) ** 2).sum(axis=1)


def normal(points, counts):
    """The mean ± 1.96 standard errors."""
    n, means, squares = moments(points, counts)
    half = Z * np.sqrt(squares / (n - 1) / n)
    return means - half, means + half


def student(points, counts):
    """The mean ± Student's t times the standard error."""
    n, means, squares = moments(points, counts)
    half = student_point(float(n[0]) - 1) * np.sqrt(squares / (n - 1) / n)
    return means - half, means + half


def four_more(points, counts):
    """Agresti and Coull's: two scores of 0 and two of 1 are added, and the normal interval taken."""
    rows = len(points)
    ends = np.tile([0.0, 1.0], (rows, 1))
    return normal(np.hstack([points, ends]), np.hstack([counts, np.full((rows, 2), 2.0)]))


def scaled_wilson(points, counts):
    """Wilson's, for as many right or wrong answers as would have the sample's variance (and one squared error more)."""
    n, means, squares = moments(points, counts)
    size = n * (n * means * (1 - means) + 1) / (squares + 1)
    centre, half = means + Z**2 / (2 * size), Z * np.sqrt(means * (1 - means) / size + (Z / (2 * size)) ** 2)
    return (centre - half) / (1 + Z**2 / size), (centre + half) / (1 + Z**2 / size)


def kshot(points, counts):
    """The interval of a run: many samples at once, and some of them by the very call of a run."""
    ends = bounded_ends(points, counts)
    at_ends = np.flatnonzero((counts * (points > 0) * (points < 1)).sum(axis=1) == 0)
    for row in (*at_ends[:CHECKED], *range(min(CHECKED, len(points)))):
        found = interval(list(np.repeat(points[row], counts[row].astype(int))), bounds=(0.0, 1.0))
        if not np.allclose(found, [ends[0][row], ends[1][row]], atol=1e-9):
            raise AssertionError(f"a run has the interval {found}, and the simulation {ends[0][row], ends[1][row]}")
    return ends


METHODS = {
    "normal": normal,
    "Student": student,
    "two 0, two 1 added": four_more,
    "scaled Wilson": scaled_wilson,
    "kshot": kshot,
}


def score_cell(name: str, n: int, simulations: int, seed: int) -> list[Cell]:
    """Measure how often each method covers the true mean, and how wide it is."""
    scores, rng = SCORES[name], np.random.default_rng([seed, n, *name.encode()])
    covered, width = dict.fromkeys(METHODS, 0), dict.fromkeys(METHODS, 0.0)
    for done in range(0, simulations, BLOCK):
        points, counts = scores.draw(rng, min(BLOCK, simulations - done), n)
        for method, ends in METHODS.items():
            low, high = ends(points, counts)
            covered[method] += int(((low <= scores.mean + 1e-12) & (high >= scores.mean - 1e-12)).sum())
            width[method] += float((np.minimum(high, 1) - np.maximum(low, 0)).sum())
    cells = []
    for method in METHODS:
        share = 100 * covered[method] / simulations
        ok = method != "kshot" or share >= LIMITS["scores"]
        cells.append(Cell(f"coverage {method}", name, str(n), share, ok))
        cells.append(Cell(f"width {method}", name, str(n), 100 * width[method] / simulations))
    return cells


# ---- right or wrong, and averages over subsets ----


def share_cell(p: float, n: int) -> list[Cell]:
    """Compute, exactly, how often the interval covers a share."""
    share = _share_covered(p, n)
    return [Cell("right or wrong", f"{100 * p:g} % right", str(n), share, share >= LIMITS["right or wrong"])]


def rare_cell(n: int) -> list[Cell]:
    """Compute the least of all shares, below 2 % and from there to 98 %; it has no limit, and the page warns of it.

    Wilson's coverage goes up and down with the share, so that single shares do not show it.
    """
    parts = {"below 2 %": np.arange(0.0005, 0.02, 0.0005), "2 to 98 %": np.arange(0.02, 0.98, 0.0002)}
    return [
        Cell("right or wrong", f"least, {name} right", str(n), min(_share_covered(float(p), n) for p in shares))
        for name, shares in parts.items()
    ]


def _share_covered(p: float, n: int) -> float:
    ends = _ends_of_shares(n)
    chances = [math.exp(_log_binomial(n, x, p)) for x in range(n + 1)]
    return 100 * sum(chances[x] for x, (low, high) in enumerate(ends) if low <= 100 * p <= high)


@functools.cache
def _ends_of_shares(n: int) -> list[tuple[float, float]]:
    """Return the intervals of 0, 1, … n right answers."""
    return [interval([100.0] * x + [0.0] * (n - x), bounds=(0.0, 100.0), binary=True) for x in range(n + 1)]


def _log_binomial(n: int, x: int, p: float) -> float:
    choices = math.lgamma(n + 1) - math.lgamma(x + 1) - math.lgamma(n - x + 1)
    return choices + x * math.log(p) + (n - x) * math.log1p(-p)


AVERAGES = {
    "18 subsets of 2": [2] * 18,
    "6 subsets of 20": [20] * 6,
    "10 subsets of 50": [50] * 10,
    "57 subsets of 100": [100] * 57,
    "20 subsets of 2 to 200": [2 + round(198 * i / 19) for i in range(20)],
}


def average_cell(name: str, p: float | None, simulations: int, seed: int) -> list[Cell]:
    """Measure the coverage of macro averages of shares; without p the subsets differ widely."""
    sizes = AVERAGES[name]
    rng = np.random.default_rng([seed, *name.encode(), round(1000 * (p or 0))])
    truths = np.full(len(sizes), p) if p is not None else (np.arange(len(sizes)) + 0.5) / len(sizes)
    covered = 0
    for _ in range(simulations):
        groups = [list(100.0 * (rng.random(n) < truth)) for n, truth in zip(sizes, truths, strict=True)]
        low, high = macro_interval(groups)
        covered += low - 1e-9 <= 100 * float(truths.mean()) <= high + 1e-9
    share = 100 * covered / simulations
    ok = share >= LIMITS["averages"] and (p is None or sum(sizes) < 1000 or share < 99)
    return [Cell("averages", name, "mixed" if p is None else f"{100 * p:g} %", share, ok)]


AVERAGED_SCORES = (
    "ranks, 70 % zeros",
    "ranks, 95 % zeros",
    "ranks, 95 % ones",
    "0, ½ or 1",
    "99 % zeros, else ½ or 1",
    "uniform",
)


def average_score_cell(name: str, scores: str, simulations: int, seed: int) -> list[Cell]:
    """Measure the coverage of macro averages of scores."""
    sizes, of = AVERAGES[name], SCORES[scores]
    rng = np.random.default_rng([seed, *name.encode(), *scores.encode()])
    covered = 0
    for _ in range(simulations):
        groups = [_values(of, rng, n) for n in sizes]
        low, high = macro_interval(groups, bounds=(0.0, 1.0))
        covered += low - 1e-9 <= of.mean <= high + 1e-9
    share = 100 * covered / simulations
    return [Cell("averages of scores", scores, name, share, share >= LIMITS["averages of scores"])]


def _values(of, rng, n: int) -> list[float]:
    points, counts = of.draw(rng, 1, n)
    return list(np.repeat(points[0], counts[0].astype(int)))


# ---- figures of a whole corpus ----

CORPORA = {
    "perplexity, texts alike": (Perplexity().measures[0].aggregate, math.exp(2)),
    "perplexity, few long texts": (Perplexity().measures[0].aggregate, math.exp(2)),
    "BLEU": (
        Bleu().measures[1].aggregate,
        100 * math.prod(((6 + i) / (10 + i)) ** ((4 - i) / 4) for i in range(4)),
    ),
}
"""What figures of sums are simulated: how the figure is computed, and its true value.

BLEU: an n-gram of k words is right with the chance qᵏ; q differs by sentence (Beta(6, 4)).
"""


def corpus(kind: str, n: int, rng, *, systems: int = 1) -> list[list[tuple[float, ...]]]:
    """Draw what the texts of a corpus add to the sums of a figure, for systems that are equal."""
    if kind == "BLEU":
        words, quality = 5 + rng.poisson(15, n), rng.beta(6, 4, n)
        totals = np.stack([np.maximum(0, words - k) for k in range(4)])
        chances = np.stack([quality ** (k + 1) for k in range(4)])
        drawn = [np.vstack([words, words, rng.binomial(totals, chances), totals]) for _ in range(systems)]
    else:
        tokens = 1 + (rng.poisson(20, n) if kind.endswith("alike") else np.floor(rng.lognormal(3, 1, n)))
        common = rng.gamma(4, 0.5, n)  # nats per token
        drawn = [np.vstack([tokens * (common + rng.gamma(4, 0.5, n)) / 2, tokens]) for _ in range(systems)]
    return [[tuple(map(float, column)) for column in each.T] for each in drawn]


def corpus_cell(kind: str, n: int, simulations: int, seed: int) -> list[Cell]:
    """Measure how often the bootstrap interval covers the true figure."""
    (reduce, truth), rng = CORPORA[kind], np.random.default_rng([seed, n, *kind.encode()])
    covered = 0
    for _ in range(simulations):
        low, high = interval(corpus(kind, n, rng)[0], reduce)
        covered += low <= truth <= high
    share = 100 * covered / simulations
    return [Cell("corpus figures", kind, str(n), share, share >= LIMITS["corpus figures"])]
