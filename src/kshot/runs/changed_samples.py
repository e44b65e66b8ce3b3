"""The samples of a task whose scores differ between two systems."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kshot.core.records import ResultRow
from kshot.runs.pairing import Match
from kshot.statistics.figures import ROUNDING
from kshot.statistics.resampling import FloatArray


def without_rounding(after: FloatArray, before: FloatArray) -> FloatArray:
    """Return scores in which those that differ from the others by rounding alone do not differ."""
    with np.errstate(over="ignore"):  # values near the largest float
        found: FloatArray = np.where(np.isclose(after, before, rtol=ROUNDING, atol=ROUNDING), before, after)
    return found


def changed_samples(
    row: ResultRow, matched: Match, *, won: bool | None = None
) -> Iterator[tuple[ResultRow, ResultRow, ResultRow]]:
    """Yield what ``Comparison.flips`` says of each sample, and its rows in both runs, read as they are needed.

    ``row`` compares the systems by one metric, on all samples or on those of its category.
    """
    (one, other), (ours, theirs) = matched.scores, matched.chosen(row.get("category"))
    before, after = one.scores[row["metric"]][ours], other.scores[row["metric"]][theirs]
    with np.errstate(over="ignore"):
        change = without_rounding(after, before) - before
    gained = change > 0 if row["higher_is_better"] else change < 0
    changed = np.flatnonzero((change != 0) & (True if won is None else gained == won))
    size = np.zeros(len(changed)) if "both" in row else -np.abs(change[changed])
    chosen = changed[np.lexsort((one.places[ours[changed]], size))]
    rows = matched.baseline.run.rows(one, map(int, ours[chosen]))
    others = matched.other.run.rows(other, map(int, theirs[chosen]))
    for at, mine, yours in zip(chosen, rows, others, strict=True):
        code = int(one.categories[ours[at]])
        flip = {
            "task": row["task"],
            **({"run_task": row["run_task"]} if "run_task" in row else {}),
            "metric": row["metric"],
            "id": mine["id"],
            "category": None if code < 0 else one.category_names[code],
            "baseline": row["baseline"],
            "run": row["run"],
            "baseline_score": float(before[at]),
            "run_score": float(after[at]),
            "baseline_answer": mine.get("answer"),
            "run_answer": yours.get("answer"),
            "target": mine.get("target"),
            "won": bool(gained[at]),
        }
        yield flip, mine, yours
