"""Comparing finished runs, sample by sample: differences, tests, and the samples that changed."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kshot.core.errors import RunError, UsageError
from kshot.core.records import ResultRow
from kshot.runs.changed_samples import changed_samples
from kshot.runs.chosen_names import meant
from kshot.runs.compared_run import Aggregates, ComparedRun, check_ids, load_scores, name_runs, read_figures
from kshot.runs.comparison_rows import Gathered, match_key
from kshot.runs.pairing import Match, left_out_models, listed, system_pairs
from kshot.runs.setting_differences import setting_differences


@dataclass(frozen=True, repr=False)
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
    _matches: Mapping[Hashable, Match] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        """Return what is compared, in one line."""
        count = len(self.rows)
        return f"<Comparison of {self._names()}: {count:,} row{'' if count == 1 else 's'}>"

    def _names(self) -> str:
        return " and ".join(str(run["label"]) for run in self.runs)

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the flips, for JSON."""
        parts = ("runs", "rows", "categories", "settings", "notes")
        return {name: getattr(self, name) for name in parts}

    def flips(
        self,
        task: str | None = None,
        metric: str | None = None,
        *,
        run_task: str | None = None,
        baseline: str | None = None,
        run: str | None = None,
        category: str | None = None,
        won: bool | None = None,
    ) -> Iterator[ResultRow]:
        """Yield the samples whose score changed: those of right and wrong in order, of others the largest change first.

        Each argument chooses some of them: ``baseline`` and ``run`` are labels of ``rows``, ``run_task`` is the name
        that the task has in the run, and ``won`` says which way.
        """
        wanted = {"task": task, "metric": metric, "run_task": run_task, "baseline": baseline, "run": run}
        for row in self.rows:
            named = {"run_task": row["task"], **row}
            if all(value is None or named[name] == value for name, value in wanted.items()):
                chosen = row if category is None else {**row, "category": category}
                yield from (flip for flip, _, _ in self.flips_of(chosen, won=won))

    def matches(self) -> list[Match]:
        """Return the samples of each two tasks that were compared, paired."""
        return list({id(each): each for each in self._matches.values()}.values())

    def flips_of(self, row: ResultRow, *, won: bool | None = None) -> Iterator[tuple[ResultRow, ResultRow, ResultRow]]:
        """Yield the samples of one of the ``rows`` or ``categories``, each with its rows in both runs."""
        matched = self.match_of(row)
        if matched is not None:
            yield from changed_samples(row, matched, won=won)

    def match_of(self, row: ResultRow) -> Match | None:
        """Return which samples one of the ``rows`` or ``categories`` compares; None for an average."""
        return None if "average" in row else self._matches.get(match_key(row))


def compare_runs(
    runs: Sequence[ComparedRun],
    aggregates: Aggregates,
    *,
    metric: str | None = None,
    task: str | Sequence[str] | None = None,
    all_pairs: bool = False,
    every_system: bool = False,
) -> Comparison:
    """Compare every run with the first, or every two; ``aggregates`` knows the rules of figures that are not means.

    ``every_system``: compare each model of each run with every other one, as far as they have something in common.
    """
    name_runs(runs)
    for run in runs:
        read_figures(run)
    wanted = _wanted_tasks(runs, task)
    notes = dict.fromkeys(_keep_metric(runs, metric))
    for run in runs:
        notes |= dict.fromkeys(load_scores(run, list(run.figures), aggregates))
        check_ids(run)
    if not every_system:
        notes |= dict.fromkeys(left_out_models(runs, all_pairs=all_pairs))
    found = Gathered(aggregates, notes, wanted)
    for one, other in system_pairs(runs, all_pairs=all_pairs, every_system=every_system):
        found.add(one, other)
    if not found.matches:
        raise _nothing_in_common(runs, wanted)
    if not any(len(matched.ours) for matched in found.matches):
        raise RunError("the runs have no sample in common: their ids differ", hint="Run both on the same data.")
    found.decide()
    if not found.rows:
        raise RunError("the runs have no metric in common", hint="; ".join(notes))
    if not every_system:
        _check_all_compared(runs, found, notes)
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
        found.matched_by_row,
    )


def _wanted_tasks(runs: Sequence[ComparedRun], given: str | Sequence[str] | None) -> frozenset[str] | None:
    """Return the tasks that a user names: by their own names, by that of a dataset or an average, or by a beginning."""
    names = (given,) if isinstance(given, str) else tuple(given or ())
    if not names:
        return None
    labels: dict[str, dict[str, None]] = {}
    for run in runs:
        for key in run.figures:
            for label in run.names(*key):
                labels.setdefault(label, {})[key[0]] = None
    tasks = list(dict.fromkeys(task for run in runs for task, _ in run.figures))
    return frozenset(
        task for name in names for task in labels.get(name) or meant("task", name, tasks, nobody="no run has the")
    )


def _keep_metric(runs: Sequence[ComparedRun], metric: str | None) -> Iterator[str]:
    """Leave out the metrics that were not asked for; yield which models have no figure then."""
    metrics = {name: None for run in runs for figures in run.figures.values() for name in figures}
    if metric is not None and metric not in metrics:
        raise UsageError(f"no run has the metric {metric!r}", hint=f"The runs have: {listed(list(metrics))}.")
    for run in runs:
        models = run.models
        run.keep_metric(metric)
        if not run.figures:
            what = "it has no figure that runs are compared by" if metric is None else f"it has no {metric}"
            raise RunError(what, where=run.name)
        if left := [model for model in models if model not in run.models]:
            yield f"{run.label} has no {metric} of {', '.join(left)}"


def _check_all_compared(runs: Sequence[ComparedRun], found: Gathered, notes: Collection[str]) -> None:
    """Refuse a run that is in no row: the user who named it would believe that it was compared."""
    compared = {row[side] for row in found.rows for side in ("baseline_run", "run_run")}
    alone = next((run for run in runs if run.label not in compared), None)
    if alone is not None:
        if any(alone.label in (each.baseline.run.label, each.other.run.label) for each in found.matches):
            what = "this run has no metric in common with those it is compared with"
            raise RunError(what, where=alone.name, hint="; ".join(notes))
        tasks = listed(list(dict.fromkeys(name for name, _ in alone.figures)))
        hint = f"It has {tasks}. Leave it out, or name runs that ask its questions."
        raise RunError("this run has nothing in common with those it is compared with", where=alone.name, hint=hint)


def _nothing_in_common(runs: Sequence[ComparedRun], wanted: Collection[str] | None) -> RunError:
    tasks = [listed(list(dict.fromkeys(name for name, _ in run.figures))) for run in runs]
    sides = "; ".join(f"{run.label} has {each}" for run, each in zip(runs, tasks, strict=True))
    what = "the runs have no task in common"
    if wanted is not None:
        what = f"not all of the runs have the task {listed(sorted(wanted))}"
    return RunError(f"{what}: {sides}", hint="Compare runs that ask the same questions.")
