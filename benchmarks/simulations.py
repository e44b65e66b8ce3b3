"""Simulate intervals and tests where the truth is known, and write the tables of docs/statistics.md.

    python benchmarks/simulations.py            # ten minutes on two cores; exit code 1 if a limit is missed
    python benchmarks/simulations.py --dry-run  # the same, and the page stays as it is

The code under test is that of a run: ``bounded_ends``, ``wilson``, ``macro_interval``, ``sign_flips``, ``holm``,
``corrected_gaps`` and ``falls``.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the cells run side by side

import numpy as np

from kshot.runs.results import corrected_gaps, falls
from kshot.statistics import holm, macro_interval, sign_test, wilson
from kshot.statistics.bounded import bounded_ends
from kshot.statistics.permutation import sign_flips
from kshot.statistics.quantiles import Z, student_point

PAGE = Path(__file__).parents[1] / "docs" / "statistics.md"
SIZES = (20, 50, 122, 200)
LIMITS = {"scores": 93.0, "right or wrong": 92.0, "averages": 92.0, "pairs": 5.5, "families": 6.0, "power": 50.0}
PROCESSES = 2
BLOCK = 1000


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


METHODS = {
    "normal": normal,
    "Student": student,
    "two 0, two 1 added": four_more,
    "scaled Wilson": scaled_wilson,
    "kshot": bounded_ends,
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
    """Compute, exactly, how often Wilson's interval covers a share."""
    chances = [math.exp(_log_binomial(n, x, p)) for x in range(n + 1)]
    inside = [wilson(x, n)[0] <= 100 * p <= wilson(x, n)[1] for x in range(n + 1)]
    share = 100 * sum(chance for chance, is_inside in zip(chances, inside, strict=True) if is_inside)
    return [Cell("right or wrong", f"{100 * p:g} % right", str(n), share, share >= LIMITS["right or wrong"])]


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
    squares = float((gaps**2).sum())
    rough = math.erfc(abs(float(gaps.sum())) / math.sqrt(2 * squares)) if squares else 1.0
    return rough if rough > least else sign_flips(gaps)[0]


def family_cell(kind: str, count: int, n: int, simulations: int, seed: int) -> list[Cell]:
    """Measure how often any of several equal systems is called ahead of another."""
    rng = np.random.default_rng([seed, count, n, *kind.encode()])
    wrong = 0
    for _ in range(simulations):
        values = systems(kind, count, n, rng)
        ps = [p_of(kind, values[i] - values[j], least=0.15) for i, j in combinations(range(count), 2)]
        wrong += min(holm(ps)) < 0.05
    share = 100 * wrong / simulations
    limit = LIMITS["pairs" if count == 2 else "families"]
    return [Cell("false", f"{count} systems, {kind}", str(n), share, share <= limit)]


def power_cell(kind: str, count: int, n: int, simulations: int, seed: int) -> list[Cell]:
    """Measure how often a system that is better is found to be ahead of another one, among several."""
    rng = np.random.default_rng([seed, count, n, 7, *kind.encode()])
    found = 0
    for _ in range(simulations):
        values = systems(kind, count, n, rng, ahead=0.3)
        ps = [p_of(kind, values[i] - values[j], least=0.3) for i, j in combinations(range(count), 2)]
        found += holm(ps)[0] < 0.05 and values[0].mean() > values[1].mean()
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


# ---- all of it ----


def jobs(scale: float, seed: int) -> list[tuple[Callable[..., list[Cell]], tuple]]:
    """List what is simulated; ``scale`` 1 has 10,000 simulations where they are cheap."""

    def times(count: int) -> int:
        return max(20, round(scale * count))

    found: list[tuple[Callable[..., list[Cell]], tuple]] = []
    found += [(score_cell, (name, n, times(10_000), seed)) for n in reversed(SIZES) for name in reversed(SCORES)]
    for count, simulations in ((8, 2000), (5, 4000), (3, 10_000), (2, 10_000)):
        for n in reversed(SIZES):
            found.append((family_cell, ("right or wrong", count, n, times(10_000), seed)))
            found.append((family_cell, ("ranks", count, n, times(simulations), seed)))
    for kind in ("right or wrong", "ranks"):
        found += [(power_cell, (kind, count, n, times(1000), seed)) for count in (2, 5) for n in SIZES]
    found += [(average_cell, (name, p, times(2000), seed)) for name in AVERAGES for p in (0.01, 0.05, 0.5, 0.99, None)]
    found += [(lookup_cell, (p, times(2000), seed)) for p in (0.5, 0.8, 0.95)]
    return found + [(share_cell, (p, n)) for p in (0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.95) for n in SIZES]


def _call(job: tuple[Callable[..., list[Cell]], tuple]) -> list[Cell]:
    function, given = job
    return function(*given)


def measured(scale: float = 1.0, *, seed: int = 14, processes: int = PROCESSES) -> list[Cell]:
    """Run all simulations, on several cores."""
    listed = jobs(scale, seed)
    if processes == 1:
        return [cell for job in listed for cell in _call(job)]
    with get_context("spawn").Pool(processes) as pool:
        return [cell for cells in pool.imap(_call, listed) for cell in cells]


# ---- the page ----


def table(cells: Sequence[Cell], name: str, first: str, digits: int = 1, order: Sequence[str] | None = None) -> str:
    """Draw one table; a figure that misses its limit is bold."""
    own = [cell for cell in cells if cell.table == name]
    columns = list(dict.fromkeys(cell.column for cell in own))
    columns = sorted(columns, key=int) if all(column.isdigit() for column in columns) else columns
    rows = list(order) if order is not None else list(dict.fromkeys(cell.row for cell in own))
    values = {(cell.row, cell.column): cell for cell in own}
    lines = [f"| {first} | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for row in rows:
        found = [values[row, column] for column in columns]
        shown = [f"{cell.value:.{digits}f}" if cell.ok else f"**{cell.value:.{digits}f}**" for cell in found]
        lines.append(f"| {row} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def methods_table(cells: Sequence[Cell]) -> str:
    """Draw the methods side by side: the least coverage of all kinds of scores, and the width beside the normal one."""
    lines = ["| method | " + " | ".join(f"least, n = {n}" for n in SIZES), ""]
    lines[0] += " | " + " | ".join(f"width, n = {n}" for n in SIZES) + " |"
    lines[1] = "|---|" + "---:|" * 2 * len(SIZES)
    values = {(cell.table, cell.row, cell.column): cell.value for cell in cells}
    for method in METHODS:
        least = [min(values[f"coverage {method}", name, str(n)] for name in SCORES) for n in SIZES]
        widths = [np.mean([values[f"width {method}", name, str(n)] for name in SCORES]) for n in SIZES]
        figures = [*(f"{each:.1f}" for each in least), *(f"{each:.1f}" for each in widths)]
        lines.append(f"| {method} | " + " | ".join(figures) + " |")
    return "\n".join(lines)


def tables(cells: Sequence[Cell]) -> dict[str, str]:
    """Return the tables of the page by the names of their marks."""
    return {
        "methods": methods_table(cells),
        "scores": table(cells, "coverage kshot", "scores", order=list(SCORES)),
        "widths": table(cells, "width kshot", "scores", order=list(SCORES)),
        "shares": table(cells, "right or wrong", "truth"),
        "averages": table(cells, "averages", "average"),
        "false": table(cells, "false", "equal systems", order=sorted({c.row for c in cells if c.table == "false"})),
        "power": table(cells, "power", "one is ahead"),
        "lookup": table(cells, "lookup", "finding"),
    }


def written(page: str, found: dict[str, str]) -> str:
    """Put the tables between their marks."""
    for name, text in found.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, mark, rest = page.partition(begin)
        _, closing, after = rest.partition(end)
        if not (mark and closing):
            raise ValueError(f"the page has no marks {begin} … {end}")
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return page


def main() -> int:
    """Measure, write the page, and say what misses its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="part of the simulations to run")
    parser.add_argument("--dry-run", action="store_true", help="leave the page as it is")
    given = parser.parse_args()
    started = time.monotonic()
    cells = measured(given.scale)
    found = tables(cells)
    if not given.dry_run:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
    print("\n\n".join(found.values()))
    missed = [cell for cell in cells if not cell.ok]
    for cell in missed:
        print(f"missed: {cell.table}, {cell.row}, {cell.column}: {cell.value:.2f}")
    print(f"{len(cells)} figures in {time.monotonic() - started:.0f} s, {len(missed)} beyond their limits")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
