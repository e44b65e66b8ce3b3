"""Comparing finished runs, sample by sample: differences, tests, and the samples that changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kshot.core.errors import RunError, UsageError
from kshot.core.records import ResultRow
from kshot.runs.changed_samples import changed_samples
from kshot.runs.compared_run import Aggregates, ComparedRun, check_ids, load_scores, name_runs, read_figures
from kshot.runs.comparison_rows import Gathered
from kshot.runs.pairing import Match, listed, system_pairs
from kshot.runs.setting_differences import setting_differences


@dataclass(frozen=True)
class Comparison:
    """What a comparison of runs found.

    ``runs`` have a ``label``, a ``path`` and ``models``. ``rows`` compare one system with a baseline by one metric on
    one task, and then on averages over subsets; ``categories`` do so for each category of a task. ``settings`` are
    those that differ, and ``notes`` say what is not compared, and why.
    """

    runs: list[dict[str, Any]]
    rows: list[ResultRow]
    categories: list[ResultRow]
    settings: list[dict[str, Any]]
    notes: list[str]
    _matches: list[tuple[ResultRow, Match]] = field(default_factory=list, repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the flips, for JSON."""
        parts = ("runs", "rows", "categories", "settings", "notes")
        return {name: getattr(self, name) for name in parts}

    def flips(
        self,
        task: str | None = None,
        metric: str | None = None,
        *,
        baseline: str | None = None,
        run: str | None = None,
        category: str | None = None,
        won: bool | None = None,
    ) -> Iterator[ResultRow]:
        """Yield the samples whose score changed: those of right and wrong in order, of others the largest change first.

        Each argument chooses some of them: ``baseline`` and ``run`` are labels of ``rows``, ``won`` says which way.
        """
        found = self.flip_rows(task, metric, baseline=baseline, run=run, category=category, won=won)
        return (flip for flip, _, _ in found)

    def flip_rows(
        self,
        task: str | None = None,
        metric: str | None = None,
        *,
        baseline: str | None = None,
        run: str | None = None,
        category: str | None = None,
        won: bool | None = None,
    ) -> Iterator[tuple[ResultRow, ResultRow, ResultRow]]:
        """Yield the same, each with the rows of the sample in both runs."""
        wanted = {"task": task, "metric": metric, "baseline": baseline, "run": run}
        for row, matched in self._matches:
            if all(value is None or row[name] == value for name, value in wanted.items()):
                yield from changed_samples(row, matched, category, won=won)


def compare_runs(
    runs: Sequence[ComparedRun],
    aggregates: Aggregates,
    *,
    metric: str | None = None,
    task: str | None = None,
    all_pairs: bool = False,
    every_system: bool = False,
) -> Comparison:
    """Compare every run with the first, or every two; ``aggregates`` knows the rules of figures that are not means.

    ``every_system``: compare each model of each run with every other one, as far as they have something in common.
    """
    name_runs(runs)
    notes: dict[str, None] = {}
    for run in runs:
        read_figures(run)
    _choose(runs, task, metric)
    for run in runs:
        notes |= dict.fromkeys(load_scores(run, list(run.figures), aggregates))
        check_ids(run)
    found = Gathered(aggregates, notes, task)
    for one, other in system_pairs(runs, all_pairs=all_pairs, every_system=every_system):
        found.add(one, other)
    if not found.matches:
        raise _nothing_in_common(runs, task)
    if not any(len(matched.ours) for matched in found.matches):
        raise RunError("the runs have no sample in common: their ids differ", hint="Run both on the same data.")
    found.decide()
    if not found.rows:
        raise RunError("the runs have no metric in common", hint="; ".join(notes))
    if not every_system:
        _check_all_compared(runs, found.rows)
    return Comparison(
        [
            {
                "label": run.label,
                "path": None if run.record.path is None else str(run.record.path),
                "models": run.models,
            }
            for run in runs
        ],
        found.rows,
        found.categories,
        setting_differences([run.spec for run in runs]),
        list(notes),
        found.flippable,
    )


def _choose(runs: Sequence[ComparedRun], task: str | None, metric: str | None) -> None:
    """Leave out the metrics that were not asked for; a task that no run has and a metric that one lacks are errors."""
    names = {name: None for run in runs for key in run.figures for name in run.names(*key)}
    if task is not None and task not in names:
        raise UsageError(f"no run has the task {task!r}", hint=f"The runs have: {listed(list(names))}.")
    metrics = {name: None for run in runs for figures in run.figures.values() for name in figures}
    if metric is not None and metric not in metrics:
        raise UsageError(f"no run has the metric {metric!r}", hint=f"The runs have: {listed(list(metrics))}.")
    for run in runs:
        run.keep_metric(metric)
        if not run.figures:
            what = "it has no figure that runs are compared by" if metric is None else f"it has no {metric}"
            raise RunError(what, where=run.name)


def _check_all_compared(runs: Sequence[ComparedRun], rows: Sequence[ResultRow]) -> None:
    """Refuse a run that no row speaks of: whoever names it would take it for compared."""
    compared = {row[side] for row in rows for side in ("baseline_run", "run_run")}
    alone = next((run for run in runs if run.label not in compared), None)
    if alone is not None:
        tasks = listed(list(dict.fromkeys(name for name, _ in alone.figures)))
        hint = f"It has {tasks}. Leave it out, or name runs that ask its questions."
        raise RunError("this run has nothing in common with those it is compared with", where=alone.name, hint=hint)


def _nothing_in_common(runs: Sequence[ComparedRun], task: str | None) -> RunError:
    tasks = [listed(list(dict.fromkeys(name for name, _ in run.figures))) for run in runs]
    sides = "; ".join(f"{run.label} has {each}" for run, each in zip(runs, tasks, strict=True))
    what = "no task in common" if task is None else f"not all of them the task {task!r}"
    return RunError(f"the runs have {what}: {sides}", hint="Compare runs that ask the same questions.")
