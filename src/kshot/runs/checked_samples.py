"""Samples that are those of the figures: what ``samples.jsonl`` has is what ``summary.json`` says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from kshot.core.errors import RunError
from kshot.core.records import ResultRow
from kshot.runs.headline import TaskOnModel, finite, task_rows
from kshot.runs.record import RunRecord
from kshot.statistics.figures import ROUNDING

WRITES_BOTH = "kshot score writes both files again from the journal."


def checked_samples(record: RunRecord) -> Iterator[ResultRow]:
    """Yield the samples, as they are read. After the last one it is an error if they are not those of the figures.

    Every task of every model must have as many samples, answered and failed, as its figures say, and a figure that is
    the mean of its scores must be their mean.
    """
    where = "" if record.path is None else str(record.path)
    figures: dict[TaskOnModel, list[ResultRow]] = {}
    for row in task_rows(record.results):
        figures.setdefault((row["task"], row["model"]), []).append(row)
    totals = {key: _Totals(rows) for key, rows in figures.items()}
    for row in record.iter_samples():
        key = row.get("task"), row.get("model")
        own = totals.get(key) if isinstance(key[0], str) and isinstance(key[1], str) else None  # type: ignore[arg-type]  # both are texts
        if own is None:
            what = f"summary.json has no figure of {key[0]!r:.80} on {key[1]!r:.80}, of which samples.jsonl has samples"
            raise RunError(what, where=where, hint=WRITES_BOTH)
        own.add(row)
        yield row
    for own in totals.values():
        own.check(where)


def by_task(rows: Iterable[ResultRow]) -> Iterator[tuple[TaskOnModel, Iterator[ResultRow]]]:
    """Yield the samples of each task on each model, as they follow one another."""
    return groupby(rows, key=lambda row: (row["task"], row["model"]))


def checked_by_task(record: RunRecord) -> Iterator[tuple[TaskOnModel, Iterator[ResultRow]]]:
    """Yield checked samples by task. There must be some, and those of a task must follow one another."""
    where = "" if record.path is None else str(record.path)
    done = set()
    for key, rows in by_task(checked_samples(record)):
        if key in done:
            hint = "kshot score writes the file again from the journal."
            raise RunError("samples.jsonl is not in the order of tasks", where=where, hint=hint)
        done.add(key)
        yield key, rows
    if not done:
        raise RunError("the run has no samples", where=where)


def check_figure(row: ResultRow, n: int, failed: int, value: float | None, where: str) -> None:
    """Refuse a row of ``summary.json`` whose counts or value are not these, which samples have."""
    told = row.get("value")
    same = value is None if told is None else value is not None and _is_same(told, value)
    if not same or (n, failed) != (row.get("n"), row.get("failed")):
        what = f"samples.jsonl and summary.json disagree about {row['metric']} of {row['task']} on {row['model']}"
        raise RunError(what, where=where, hint=WRITES_BOTH)


def _is_same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)


class _Totals:
    """What the samples of one task on one model amount to."""

    def __init__(self, figures: list[ResultRow]) -> None:
        self._figures = figures
        means = [row for row in figures if row.get("aggregate") is None and not row.get("detail")]
        self._means = {row["metric"]: 0.0 for row in means if finite(row["value"]) is not None}
        self._answered = self._failed = 0

    def add(self, row: ResultRow) -> None:
        """Add a sample."""
        if "question" not in row:
            self._means = {}  # an earlier version, which did not record which figures are means
        if "failed" in row:
            self._failed += 1
            return
        self._answered += 1
        scores: Any = row.get("scores")
        known: Mapping[str, Any] = scores if isinstance(scores, dict) else {}
        for metric, mean in self._means.items():
            score = finite(known.get(metric))
            self._means[metric] = math.nan if score is None else mean + (score - mean) / self._answered

    def check(self, where: str) -> None:
        """Compare the totals with the figures."""
        for row in self._figures:
            mean = self._means.get(row["metric"]) if self._answered else None
            value = row.get("value") if mean is None else mean
            check_figure(row, self._answered, self._failed, value, where)
