"""A finished run as comparisons use it: its models, the figures that can be compared, and its compact scores."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from kshot.core.errors import RunError, UsageError
from kshot.core.failed_parts import all_parts
from kshot.core.records import ResultRow
from kshot.runs.checked_samples import WRITES_BOTH, check_figure
from kshot.runs.headline import TaskOnModel, task_rows
from kshot.runs.record import RunRecord, read_record
from kshot.runs.run_state import older_figures
from kshot.runs.sample_scores import TaskScores, digest_of, read_scores
from kshot.runs.samples_file import PlacedRow, placed_rows, rows_at
from kshot.runs.spec_file import read_spec
from kshot.statistics.resampling import Reduce, mean, sequence_of

Aggregates: TypeAlias = Callable[[str, int], Reduce | None]
"""From the name of a rule and the size of its tuples to the rule by which they become a figure; None: unknown."""


@dataclass
class ComparedRun:
    """One run. ``figures`` has the rows of whole tasks that systems are compared by, by task and model, then metric."""

    record: RunRecord
    spec: Mapping[str, Any]
    label: str = ""
    figures: dict[TaskOnModel, dict[str, ResultRow]] = field(default_factory=dict)
    averages: list[ResultRow] = field(default_factory=list)
    scores: dict[TaskOnModel, TaskScores] = field(default_factory=dict)

    @property
    def models(self) -> list[str]:
        """The models of the run, in its order."""
        return list(dict.fromkeys(model for _, model in self.figures))

    def tasks(self, model: str) -> list[str]:
        """The tasks of one model that have samples, in their order."""
        return [task for task, of in self.figures if of == model and (task, of) in self.scores]

    def names(self, task: str, model: str) -> list[str]:
        """The names by which a user may choose a task: its own, those of its dataset, and of averages over it."""
        row = next(iter(self.figures[task, model].values()))
        labels = [row[label] for label in ("dataset", "of", "swept", "benchmark") if isinstance(row.get(label), str)]
        averages = [each["task"] for each in self.averages if each["model"] == model and task in all_parts(each)]
        return list(dict.fromkeys((task, *labels, *averages)))

    def keep_metric(self, metric: str | None) -> None:
        """Leave out all other metrics; None: keep all."""
        if metric is not None:
            kept = {key: {metric: rows[metric]} for key, rows in self.figures.items() if metric in rows}
            self.figures, self.averages = kept, [row for row in self.averages if row["metric"] == metric]

    @property
    def name(self) -> str:
        """The folder, or what stands for it in messages."""
        return self.label if self.record.path is None else str(self.record.path)

    @property
    def cautions(self) -> list[str]:
        """What a user should know of the figures before anything else."""
        told = None if self.record.path is None else older_figures(self.record.path, self.spec)
        return [] if told is None else [f"{self.label}: {told}"]

    def placed(self) -> Iterator[PlacedRow]:
        """Yield the rows of the samples."""
        if self.record.path is not None:
            yield from placed_rows(self.record.path)
            return
        for at, row in enumerate(self.record.samples):
            yield PlacedRow(row, at, f"{self.label}, sample {at + 1}")

    def ids(self, scores: TaskScores, positions: Iterable[int]) -> Iterator[str]:
        """Yield the ids of samples; they are read again, since only their digests are kept."""
        yield from (row["id"] for row in self.rows(scores, positions))

    def rows(self, scores: TaskScores, positions: Iterable[int]) -> Iterator[ResultRow]:
        """Yield the rows of samples, which are read again as they are needed."""
        chosen = list(positions)
        places = [int(scores.places[at]) for at in chosen]
        path = self.record.path
        rows = (self.record.samples[place] for place in places) if path is None else rows_at(path, places)
        for at, row in zip(chosen, rows, strict=True):
            found = row.get("id")
            if not isinstance(found, str) or digest_of(found) != int(scores.ids[at]):
                raise RunError("samples.jsonl has changed while it was read", where=self.name, hint="Compare again.")
            yield row


def open_run(run: str | Path | RunRecord) -> ComparedRun:
    """Open a run: a folder, or what ``evaluate`` returned."""
    if not isinstance(run, (str, Path, RunRecord)):
        raise UsageError(
            f"{run!r:.60} is not a run", hint="Give folders, or what kshot.evaluate and kshot.load return."
        )
    if isinstance(run, RunRecord) and run.path is None:
        return ComparedRun(run, {"identity": run.settings})
    path = run.path if isinstance(run, RunRecord) else Path(run)
    record = read_record(path or "")
    return ComparedRun(record, read_spec(path or ""))


def name_runs(runs: Sequence[ComparedRun]) -> None:
    """Give each run a short label of its own: the last parts of its path that differ from those of the others.

    A run without folder keeps the label that it has, if any.
    """
    paths = [Path(run.record.path).absolute().parts if run.record.path is not None else () for run in runs]
    for at, run in enumerate(runs):
        others = [other for other in paths if other != paths[at]]
        depth = 1
        while depth < len(paths[at]) and any(other[-depth:] == paths[at][-depth:] for other in others):
            depth += 1
        run.label = str(Path(*paths[at][-depth:])) if paths[at] else run.label or f"run {at + 1}"
    while twice := {label for label, count in Counter(run.label for run in runs).items() if count > 1}:
        for label in twice:  # the same folder, given twice
            for number, run in enumerate((run for run in runs if run.label == label), start=1):
                run.label = f"{label} ({number})"


def read_figures(run: ComparedRun) -> None:
    """Find the figures of whole tasks and the averages, by which systems are compared."""
    main = [row for row in run.record.results if not row.get("detail")]
    run.averages += [row for row in main if "average" in row and "tasks" in row and "gap" not in row]
    for row in task_rows(main):
        run.figures.setdefault((row["task"], row["model"]), {})[row["metric"]] = row


def bounds_of(row: ResultRow) -> tuple[float, float] | None:
    """Return the ends of the scale of a figure, as ``summary.json`` has them: null is no end. None: they are wrong."""
    if row.get("bounds") is None:
        return None
    low, high = row["bounds"]
    ends = (-math.inf if low is None else float(low), math.inf if high is None else float(high))
    return ends if ends[0] < ends[1] else None


def load_scores(run: ComparedRun, wanted: Collection[TaskOnModel], aggregates: Aggregates) -> Iterator[str]:
    """Read the scores of these tasks; yield what is left out of the comparison, and why.

    A figure that is computed from the samples must be that of ``summary.json``.
    """
    for figures in run.figures.values():
        for metric in [name for name, row in figures.items() if row.get("value") is None and row.get("n", 0)]:
            del figures[metric]
    names = {key: run.figures[key] for key in wanted}
    run.scores = read_scores(run.placed(), names, run.name)
    unruled: dict[str, None] = {}
    for key in wanted:
        scores, figures = run.scores.get(key), run.figures[key]
        for metric in list(figures):
            row = figures[metric]
            if scores is None:
                check_figure(row, 0, 0, None, run.name)
                yield f"{run.label}: {key[0]} has no samples of {key[1]}"
                continue
            answered = ~scores.failed
            reduce = rule_of(row, scores, aggregates)
            if reduce is None:
                unruled[metric] = None
                del figures[metric]
                continue
            values = sequence_of(scores.values(metric)[answered])
            value = reduce(values) if values else None
            check_figure(row, len(values), int(scores.failed.sum()), value, run.name)
    if unruled:
        yield (
            f"{run.label}: {', '.join(unruled)} cannot be computed from single samples by a rule of kshot, so runs are "
            "not compared by it"
        )


def rule_of(row: ResultRow, scores: TaskScores, aggregates: Aggregates) -> Reduce | None:
    """Return how the values of a metric become its figure; None: only the metric itself knows."""
    name, metric = row.get("aggregate"), row["metric"]
    if name is None:
        return mean
    if scores.failed.all():
        return mean  # there is nothing to sum up
    return aggregates(name, scores.parts[metric].shape[1]) if metric in scores.parts else None


def check_ids(run: ComparedRun) -> None:
    """Refuse a run that has an id twice in one task."""
    for (task, _), scores in run.scores.items():
        twice = np.flatnonzero(scores.ids[1:] == scores.ids[:-1])
        if len(twice):
            (found,) = run.ids(scores, [int(twice[0])])
            raise RunError(f"two samples of {task} have the id {found!r}", where=run.name, hint=WRITES_BOTH)
