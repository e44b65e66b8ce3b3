"""Comparing finished runs, sample by sample: differences, tests, and the samples that changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kshot.core.errors import RunError, UsageError
from kshot.core.records import ResultRow
from kshot.runs.changed_samples import changed_samples, without_rounding
from kshot.runs.compared_run import (
    Aggregates,
    ComparedRun,
    bounds_of,
    check_ids,
    load_scores,
    name_runs,
    read_figures,
    rule_of,
)
from kshot.runs.pairing import ComparedSystem, Match, match, system_pairs, task_pairs
from kshot.runs.setting_differences import setting_differences
from kshot.statistics.paired import Pair, Paired, averaged, compare_by_family
from kshot.statistics.resampling import sequence_of

_MAX_LISTED = 8


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
) -> Comparison:
    """Compare every run with the first, or every two; ``aggregates`` knows the rules of figures that are not means."""
    name_runs(runs)
    notes: dict[str, None] = {}
    for run in runs:
        read_figures(run)
    _choose(runs, task, metric)
    for run in runs:
        notes |= dict.fromkeys(load_scores(run, list(run.figures), aggregates))
        check_ids(run)
    found = _Found(aggregates, notes)
    for one, other in system_pairs(runs, all_pairs=all_pairs):
        found.add(one, other)
    if not found.matches:
        raise _nothing_in_common(runs)
    if not any(len(matched.ours) for matched in found.matches):
        raise RunError("the runs have no sample in common: their ids differ", hint="Run both on the same data.")
    rows, categories = found.verdicts()
    return Comparison(
        [
            {
                "label": run.label,
                "path": None if run.record.path is None else str(run.record.path),
                "models": run.models,
            }
            for run in runs
        ],
        rows,
        categories,
        setting_differences([run.spec for run in runs]),
        list(notes),
        found.flippable(rows),
    )


def _choose(runs: Sequence[ComparedRun], task: str | None, metric: str | None) -> None:
    """Leave out the tasks and metrics that were not asked for; one that no run has is an error."""
    every = list(dict.fromkeys(name for run in runs for name, _ in run.figures))
    datasets = {row["dataset"] for run in runs for row in run.averages if isinstance(row.get("dataset"), str)}
    if task is not None and task not in {*every, *datasets}:
        raise UsageError(f"no run has the task {task!r}", hint=f"The runs have: {_listed(sorted(datasets) + every)}.")
    metrics = list(dict.fromkeys(name for run in runs for figures in run.figures.values() for name in figures))
    if metric is not None and metric not in metrics:
        raise UsageError(f"no run has the metric {metric!r}", hint=f"The runs have: {_listed(metrics)}.")
    for run in runs:
        run.figures = {
            key: kept
            for key, figures in run.figures.items()
            if (kept := {name: row for name, row in figures.items() if metric in {None, name}})
            and (task is None or key[0] == task or any(row.get("dataset") == task for row in kept.values()))
        }
        run.averages = [
            row
            for row in run.averages
            if task in {None, row["task"], row.get("dataset")} and metric in {None, row["metric"]}
        ]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_LISTED]) + (", …" if len(names) > _MAX_LISTED else "")


def _nothing_in_common(runs: Sequence[ComparedRun]) -> RunError:
    sides = "; ".join(
        f"{run.label} has {_listed(list(dict.fromkeys(task for task, _ in run.figures))) or 'none'}" for run in runs
    )
    return RunError(f"the runs have no task in common: {sides}", hint="Compare runs that ask the same questions.")


class _Found:
    """The comparisons that are to be tested together."""

    def __init__(self, aggregates: Aggregates, notes: dict[str, None]) -> None:
        self.matches: list[Match] = []
        self._aggregates, self._notes = aggregates, notes
        self._rows: list[tuple[Hashable, ResultRow, Pair | None, Match | None]] = []

    def add(self, one: ComparedSystem, other: ComparedSystem) -> None:
        """Add all comparisons of two systems."""
        tasks = task_pairs(one, other)
        matches = [match(one, other, pair) for pair in tasks]
        self._note_left_over(one, other, tasks)
        pairs: dict[tuple[str, str], Pair] = {}
        for matched in matches:
            for metric in self._metrics(matched):
                pair = self._task(matched, metric)
                if pair is not None:
                    pairs[matched.baseline_task, metric] = pair
        self._averages(one, other, dict(tasks), matches, pairs)
        self.matches += matches

    def _note_left_over(self, one: ComparedSystem, other: ComparedSystem, tasks: Sequence[tuple[str, str]]) -> None:
        if not tasks:
            return
        for system, side in ((one, 0), (other, 1)):
            used = {pair[side] for pair in tasks}
            if left := [task for task in system.tasks() if task not in used]:
                self._note(f"only {system.label} has {_listed(left)}")

    def _note(self, text: str) -> None:
        self._notes[text] = None

    def _metrics(self, matched: Match) -> Iterator[str]:
        """Yield the metrics by which both systems can be compared, and note the others."""
        one, other = _figures(matched)
        for metric in dict.fromkeys((*one, *other)):
            if metric not in one or metric not in other:
                holder = matched.baseline if metric in one else matched.other
                self._note(f"{matched.baseline_task}: only {holder.label} has {metric}")
            elif _is_higher_better(one[metric]) != _is_higher_better(other[metric]):
                self._note(f"{matched.baseline_task}: the runs disagree whether a higher {metric} is better")
            elif one[metric].get("chunks") != other[metric].get("chunks") and not one[metric].get("token_budget"):
                self._note(
                    f"{matched.baseline_task}: the passages of {matched.baseline.label} and {matched.other.label} "
                    "differ in size, so they are compared only by measures with a token budget"
                )
            else:
                yield metric

    def _task(self, matched: Match, metric: str) -> Pair | None:
        """Add a task by a metric, as a whole and by category; return its pair."""
        figure = _figures(matched)[0][metric]
        row = _start(matched, figure)
        pair = self._pair(matched, figure, None)
        family = (figure.get("kind", "plain"), metric)
        self._rows.append((family, row | _counted(matched, figure, None), pair, matched))
        for category in sorted(set(matched.scores[0].category_names) | set(matched.scores[1].category_names)):
            part = self._pair(matched, figure, category)
            own = row | {"category": category} | _counted(matched, figure, category)
            self._rows.append((("category", *family), own, part, matched))
        return pair

    def _pair(self, matched: Match, figure: ResultRow, category: str | None) -> Pair | None:
        ours, theirs = matched.chosen(category)
        if not len(ours):
            return None
        one, other = matched.scores
        metric = figure["metric"]
        reduce = rule_of(figure, one, self._aggregates)
        if reduce is None:
            return None
        a, b = other.values(metric)[theirs], one.values(metric)[ours]
        if a.ndim == 1:
            a = without_rounding(a, b)
        return Pair(a, b, reduce, _is_higher_better(figure), bounds_of(figure))

    def _averages(
        self,
        one: ComparedSystem,
        other: ComparedSystem,
        tasks: dict[str, str],
        matches: Sequence[Match],
        pairs: dict[tuple[str, str], Pair],
    ) -> None:
        """Add the averages that both systems have over the same subsets."""
        by_task = {matched.baseline_task: matched for matched in matches}
        for row in (row for row in one.run.averages if row["model"] == one.model):
            same = [
                each
                for each in other.run.averages
                if (each["model"], each["metric"], each["average"]) == (other.model, row["metric"], row["average"])
                and {tasks.get(task) for task in row["tasks"]} == set(each["tasks"])
            ]
            held = [pairs.get((task, row["metric"])) for task in row["tasks"]]
            found = [pair for pair in held if pair is not None]
            if not same or len(found) != len(held):
                self._note(f"{row['task']}: the runs do not have it over the same subsets, so it is not compared")
                continue
            pair = averaged(found, weighted=row["average"] == "weighted")
            if pair is None:
                self._note(f"{row['task']}: an average of {row['metric']} is not compared, only the subsets are")
                continue
            chosen = [by_task[task] for task in row["tasks"]]
            figure = _figures(chosen[0])[0][row["metric"]]
            counts = [_counted(matched, figure, None) for matched in chosen]
            summed = {name: sum(each[name] for each in counts) for name in counts[0]}
            start = _start(chosen[0], figure) | {"task": row["task"], "average": row["average"]}
            start.pop("run_task", None)
            self._rows.append(((figure.get("kind", "plain"), row["metric"]), start | summed, pair, None))

    def verdicts(self) -> tuple[list[ResultRow], list[ResultRow]]:
        """Test everything, and return the rows of whole tasks and averages, and those of categories."""
        tested = compare_by_family([(family, pair) for family, _, pair, _ in self._rows if pair is not None])
        verdicts = iter(tested)
        self._done = [
            (row | (_verdict(row, pair, next(verdicts)) if pair is not None else _NOTHING), matched)
            for _, row, pair, matched in self._rows
        ]
        whole = [row for row, _ in self._done if "category" not in row and "average" not in row]
        averages = [row for row, _ in self._done if "average" in row]
        return [_ordered(row) for row in (*whole, *averages)], [
            _ordered(row) for row, _ in self._done if "category" in row
        ]

    def flippable(self, rows: Sequence[ResultRow]) -> list[tuple[ResultRow, Match]]:
        """Return the rows of whole tasks with their samples."""
        del rows
        return [(row, matched) for row, matched in self._done if matched is not None and "category" not in row]


_NOTHING: ResultRow = {
    **dict.fromkeys(("baseline_value", "run_value", "difference", "ci95", "p", "p_corrected")),
    "family": 0,
    "verdict": None,
}
"""What a row has where both systems answered no sample."""

_ORDER = (
    "task", "run_task", "category", "average", "kind", "metric", "higher_is_better", "baseline", "run", "baseline_run",
    "baseline_model", "run_run", "run_model", "baseline_value", "run_value", "difference", "ci95", "p", "p_corrected",
    "family", "n", "won", "lost", "both", "neither", "tied", "only_baseline", "only_run", "failed_baseline",
    "failed_run", "verdict",
)  # fmt: skip


def _ordered(row: ResultRow) -> ResultRow:
    return {name: row[name] for name in _ORDER if name in row}


def _figures(matched: Match) -> tuple[dict[str, ResultRow], dict[str, ResultRow]]:
    one, other = matched.baseline, matched.other
    return one.run.figures[matched.baseline_task, one.model], other.run.figures[matched.other_task, other.model]


def _is_higher_better(row: ResultRow) -> bool:
    return bool(row.get("higher_is_better", True))


def _start(matched: Match, figure: ResultRow) -> ResultRow:
    one, other = matched.baseline, matched.other
    return {
        "task": matched.baseline_task,
        **({} if matched.other_task == matched.baseline_task else {"run_task": matched.other_task}),
        **({"kind": figure["kind"]} if "kind" in figure else {}),
        "metric": figure["metric"],
        "higher_is_better": _is_higher_better(figure),
        "baseline": one.label,
        "run": other.label,
        "baseline_run": one.run.label,
        "baseline_model": one.model,
        "run_run": other.run.label,
        "run_model": other.model,
    }


def _counted(matched: Match, figure: ResultRow, category: str | None) -> ResultRow:
    """Count the samples by who was right, or whose score is better."""
    (one, other), (ours, theirs) = matched.scores, matched.chosen(category)
    before, after = one.scores[figure["metric"]][ours], other.scores[figure["metric"]][theirs]
    after = without_rounding(after, before)
    gained = after > before if _is_higher_better(figure) else after < before
    equal = after == before
    counts = {"n": len(ours), "won": int(gained.sum()), "lost": int((~gained & ~equal).sum())}
    bounds = bounds_of(figure)
    if figure.get("binary") and bounds is not None:
        right = before == (bounds[1] if _is_higher_better(figure) else bounds[0])
        counts |= {"both": int((equal & right).sum()), "neither": int((equal & ~right).sum())}
    else:
        counts["tied"] = int(equal.sum())
    return counts | matched.counts(category)


def _verdict(row: ResultRow, pair: Pair, found: Paired) -> ResultRow:
    better = (found.difference > 0) == row["higher_is_better"]
    value: Callable[[Any], float] = lambda values: pair.reduce(sequence_of(values))  # noqa: E731
    if pair.weights is not None:
        value = lambda values: float(np.average(np.asarray(values), weights=pair.weights))  # noqa: E731
    return {
        "baseline_value": value(pair.b),
        "run_value": value(pair.a),
        "difference": found.difference,
        "ci95": list(found.interval) if found.interval else None,
        "p": found.p,
        "p_corrected": found.p_corrected,
        "family": found.family,
        "verdict": ("better" if better else "worse") if found.decided else None,
    }
