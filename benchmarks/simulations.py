"""Simulate intervals and tests where the truth is known, and write the tables of docs/statistics.md.

python benchmarks/simulations.py            # eight minutes on two cores; exit code 1 if a limit is missed
python benchmarks/simulations.py --dry-run  # the same, and the page stays as it is
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the cells run side by side
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402 - it reads the variable above

from benchmarks.marked_pages import written  # noqa: E402 - the path is set above
from benchmarks.simulated_intervals import (  # noqa: E402 - the path is set above
    AVERAGED_SCORES,
    AVERAGES,
    CORPORA,
    METHODS,
    SCORES,
    SIZES,
    Cell,
    average_cell,
    average_score_cell,
    corpus_cell,
    rare_cell,
    score_cell,
    share_cell,
)
from benchmarks.simulated_verdicts import (  # noqa: E402 - the path is set above
    SUBSETS,
    average_verdict_cell,
    family_cell,
    lookup_cell,
    power_cell,
    swap_cell,
)

PAGE = ROOT / "docs" / "statistics.md"
PROCESSES = 2
CORPUS_SIZES = (20, 50, 200)


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
    found += [
        (average_score_cell, (name, scores, times(2000), seed)) for scores in AVERAGED_SCORES for name in AVERAGES
    ]
    found += [(corpus_cell, (kind, n, times(600), seed)) for kind in CORPORA for n in CORPUS_SIZES]
    found += [(swap_cell, (kind, n, times(10_000), seed)) for kind in CORPORA if kind != "BLEU" for n in CORPUS_SIZES]
    for kind in ("right or wrong", "ranks"):
        found += [(average_verdict_cell, (name, kind, times(4000), seed)) for name in SUBSETS]
    found += [(lookup_cell, (p, times(2000), seed)) for p in (0.5, 0.8, 0.95)]
    found += [(rare_cell, (n,)) for n in SIZES]
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
        "average scores": table(cells, "averages of scores", "scores"),
        "corpus": table(cells, "corpus figures", "figure"),
        "false": table(cells, "false", "equal systems", order=sorted({c.row for c in cells if c.table == "false"})),
        "false averages": table(cells, "false averages", "equal systems"),
        "false corpus": table(cells, "false corpus figures", "equal systems"),
        "power": table(cells, "power", "one is ahead"),
        "lookup": table(cells, "lookup", "finding"),
    }


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
