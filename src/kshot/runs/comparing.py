"""Comparing finished runs, sample by sample: differences, tests, and the samples that changed."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kshot.core.errors import RunError, UsageError
from kshot.core.failed_parts import all_parts, many_failed, most_failed
from kshot.core.records import ResultRow
from kshot.core.visible import listed
from kshot.runs.compared_run import (
    Aggregates,
    ComparedRun,
    bounds_of,
    check_ids,
    load_scores,
    measure_conflict,
    name_runs,
    read_figures,
    rule_of,
)
from kshot.runs.pairing import ComparedSystem, Match, left_out_models, match, system_pairs, task_pairs
from kshot.runs.sample_filters import meant
from kshot.runs.setting_differences import setting_differences
from kshot.runs.swept_rows import AVERAGES
from kshot.statistics.figures import ROUNDING, same_units
from kshot.statistics.paired import Pair, Paired, averaged, compare_by_family, has_figures
from kshot.statistics.resampling import FloatArray, Values, sequence_of


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


class Gathered:
    """The comparisons that are to be tested together."""

    def __init__(self, aggregates: Aggregates, notes: dict[str, None], wanted: Collection[str] | None = None) -> None:
        """Take the rules of figures that are not means, and the notes to add to; ``wanted``: the only tasks."""
        self.matches: list[Match] = []
        self.rows: list[ResultRow] = []
        self.categories: list[ResultRow] = []
        self.matched_by_row: dict[Hashable, Match] = {}
        self._aggregates, self._notes, self._wanted = aggregates, notes, wanted
        self._rows: list[tuple[Hashable, ResultRow, Pair | None, Match | None]] = []

    def add(self, one: ComparedSystem, other: ComparedSystem) -> None:
        """Add all comparisons of two systems."""
        tasks = [pair for pair in task_pairs(one, other) if any(map(self._is_wanted, pair))]
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
            which = "" if self._wanted is None else "of those chosen "
            self._note(f"{one.label} and {other.label} are not compared: they have no task {which}in common")
            return
        for system, side in ((one, 0), (other, 1)):
            used = {pair[side] for pair in tasks}
            if left := [task for task in system.tasks() if task not in used and self._is_wanted(task)]:
                self._note(f"only {system.label} has {listed(left)}")

    def _is_wanted(self, task: str) -> bool:
        return self._wanted is None or task in self._wanted

    def _note(self, text: str) -> None:
        self._notes[text] = None

    def _metrics(self, matched: Match) -> Iterator[str]:
        """Yield the metrics by which both systems can be compared, and note the others."""
        one, other = _figures(matched)
        labels = matched.baseline.label, matched.other.label
        for metric in dict.fromkeys((*one, *other)):
            if metric not in one or metric not in other:
                holder = matched.baseline if metric in one else matched.other
                self._note(f"{matched.baseline_task}: only {holder.label} has {metric}")
            elif conflict := measure_conflict(one[metric], other[metric], labels):
                self._note(f"{matched.baseline_task}: {conflict}")
            elif not _same_parts(matched, metric):
                self._note(f"{matched.baseline_task}: the runs compute {metric} by different rules")
            elif not _same_units(matched, metric):
                self._note(
                    f"{matched.baseline_task}: {labels[0]} and {labels[1]} divide the same texts into other numbers "
                    f"of units, such as tokens, so they are not compared by {metric}; figures per byte or word can be "
                    "(bits_per_byte, byte_perplexity, word_perplexity)"
                )
            else:
                rules = [figures[metric].get("rule", "") for figures in (one, other)]
                if rules[0] != rules[1]:
                    ways = [rule or "no rule" for rule in rules]
                    hint = "--accuracy chooses one rule" if all(rules) else "--ranking-type chooses one way"
                    self._note(
                        f"{matched.baseline_task}: {metric} goes by {ways[0]} in {labels[0]} and by {ways[1]} in "
                        f"{labels[1]}; {hint} for both"
                    )
                yield metric

    def _task(self, matched: Match, metric: str) -> Pair | None:
        """Add a task by a metric, as a whole and by category; return its pair."""
        figure = _shared_figure(matched, metric)
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
        bounds = bounds_of(figure)
        if a.ndim == 1:
            a = without_rounding(a, b)
            low, high = bounds or (-math.inf, math.inf)
            if min(a.min(), b.min()) < low - ROUNDING or max(a.max(), b.max()) > high + ROUNDING:
                bounds = None  # the metric says so, and its values do not
        singles = other.scores[metric][theirs], one.scores[metric][ours]
        pair = Pair(a, b, reduce, _is_higher_better(figure), bounds, singles=singles)
        return pair if has_figures(pair) else None

    def _averages(
        self,
        one: ComparedSystem,
        other: ComparedSystem,
        tasks: dict[str, str],
        matches: Sequence[Match],
        pairs: dict[tuple[str, str], Pair],
    ) -> None:
        """Add the averages that both systems have over the same subsets, and note the others."""
        by_task = {matched.baseline_task: matched for matched in matches}
        theirs, used = other.averages(), []
        for row in (row for row in one.averages() if all(map(self._is_wanted, all_parts(row)))):
            alike = [each for each in theirs if {tasks.get(task) for task in all_parts(row)} == set(all_parts(each))]
            used += alike
            same = [each for each in alike if (each["metric"], each["average"]) == (row["metric"], row["average"])]
            if not same:
                self._note_average(row, alike, one, other)
                continue
            names, left_out = self._kept(row, same[0], tasks, by_task)
            if not names:
                why = "more than half of the samples of each subset failed in one of the runs"
                self._note(f"{row['task']}: {why}, so it is not compared")
                continue
            held = [pairs.get((task, row["metric"])) for task in names]
            found = [pair for pair in held if pair is not None]
            unanswered = [task for task in names if task in by_task and not by_task[task].answered.any()]
            if unanswered:
                self._note(
                    f"{row['task']}: no question of {listed(unanswered)} was answered in both, so it is not compared"
                )
                continue
            if len(found) != len(held):
                self._note(
                    f"{row['task']}: not all of its subsets are compared by {row['metric']}, so it is not either"
                )
                continue
            pair = averaged(found, weighted=row["average"] == "weighted") if row["average"] in AVERAGES else None
            if pair is None:
                self._note(f"{row['task']}: an average of {row['metric']} is not compared, only the subsets are")
                continue
            chosen = [by_task[task] for task in names]
            figure = _shared_figure(chosen[0], row["metric"])
            counts = [_counted(matched, figure, None) for matched in chosen]
            summed = {name: sum(each[name] for each in counts) for name in counts[0]}
            start = _start(chosen[0], figure) | {"task": row["task"], "average": row["average"]}
            start.pop("run_task", None)
            if left_out:
                why = "more than half of the samples failed in one of the runs"
                self._note(f"{row['task']} is compared without {listed(left_out)}: {why}")
            marked = [task for task in names if many_failed(*_sizes(by_task[task]))]
            start |= {name: some for name, some in (("left_out", left_out), ("partly_failed", marked)) if some}
            self._rows.append(((figure.get("kind", "plain"), row["metric"]), start | summed, pair, None))
        known = {frozenset(map(tasks.get, all_parts(row))) for row in one.averages()}
        for row in theirs:
            parts = all_parts(row)
            if row not in used and frozenset(parts) not in known and all(map(self._is_wanted, parts)):
                self._note_average(row, [], other, one)

    @staticmethod
    def _kept(
        row: ResultRow, other: ResultRow, tasks: Mapping[str, str], by_task: Mapping[str, Match]
    ) -> tuple[list[str], list[str]]:
        """Return the tasks to compare two averages by, and those left out because too many samples failed."""
        shared = [task for task in row["tasks"] if tasks[task] in other["tasks"]]
        names = [task for task in shared if not most_failed(*_sizes(by_task[task]))]
        return names, [task for task in all_parts(row) if task not in names]

    def _note_average(
        self, row: ResultRow, alike: Sequence[ResultRow], owner: ComparedSystem, other: ComparedSystem
    ) -> None:
        """Note why an average is not compared; ``alike``: those that the other system has over the same subsets."""
        kinds = {each["average"] for each in alike if each["metric"] == row["metric"]}
        if kinds:
            why = f"{other.label} has the {' and the '.join(sorted(kinds))} average instead (--average)"
        elif alike:
            return  # of another metric: the subsets have a note about this one
        elif any(each["task"] == row["task"] for each in other.averages()):
            why = "the runs do not have it over the same subsets"
        else:
            why = f"only {owner.label} has it"
        self._note(f"{row['task']}: {why}, so it is not compared")

    def decide(self) -> None:
        """Test everything, and fill the rows of whole tasks and averages, and those of categories."""
        tested = iter(compare_by_family([(family, pair) for family, _, pair, _ in self._rows if pair is not None]))
        averages: list[ResultRow] = []
        for _, start, pair, matched in self._rows:
            row = _ordered(start | (_NOTHING if pair is None else _verdict(start, pair, next(tested))))
            if "category" in row:
                self.categories.append(row)
            elif matched is None:
                averages.append(row)
            else:
                self.rows.append(row)
                self.matched_by_row[match_key(row)] = matched
        self.rows += averages


def _sizes(matched: Match) -> tuple[int, int]:
    """Return how many shared samples both runs answered, and how many failed in either."""
    answered = int(matched.answered.sum())
    return answered, len(matched.answered) - answered


def match_key(row: ResultRow) -> Hashable:
    """Return what tells which samples a row compares: systems and their tasks, but neither metric nor category."""
    names = ("baseline_run", "baseline_model", "run_run", "run_model", "task", "run_task")
    return tuple(row.get(name) for name in names)


_NOTHING: ResultRow = {
    **dict.fromkeys(("baseline_value", "run_value", "difference", "ci95", "p", "p_corrected")),
    "family": 0,
    "verdict": None,
}
"""What a row has where both systems answered no sample, or none with a figure."""

_ORDER = (
    "task", "run_task", "category", "average", "kind", "metric", "rule", "run_rule", "higher_is_better", "baseline",
    "run", "baseline_run", "baseline_model", "run_run", "run_model", "baseline_value", "run_value", "difference",
    "ci95", "p", "p_corrected", "family", "n", "won", "lost", "both", "neither", "tied", "only_baseline", "only_run",
    "failed_baseline", "failed_run", "failed", "left_out", "partly_failed", "verdict",
)  # fmt: skip


def _ordered(row: ResultRow) -> ResultRow:
    return {name: row[name] for name in _ORDER if name in row}


def _figures(matched: Match) -> tuple[dict[str, ResultRow], dict[str, ResultRow]]:
    one, other = matched.baseline, matched.other
    return one.run.figures[matched.baseline_task, one.model], other.run.figures[matched.other_task, other.model]


def _shared_figure(matched: Match, metric: str) -> ResultRow:
    """Return the row of a figure, with the scale that both runs agree on."""
    one, other = (figures[metric] for figures in _figures(matched))
    agreed = {name for name in ("bounds", "binary") if one.get(name) == other.get(name)}
    shared = {name: value for name, value in one.items() if name not in {"bounds", "binary"} or name in agreed}
    rules = [figure.get("rule", "") for figure in (one, other)]
    return shared | ({"run_rule": rules[1]} if rules[0] != rules[1] else {})


def _same_parts(matched: Match, metric: str) -> bool:
    """Whether a figure that is not a mean is computed from as many numbers of each sample in both runs."""
    return len({scores.parts[metric].shape[1] for scores in matched.scores if metric in scores.parts}) <= 1


def _same_units(matched: Match, metric: str) -> bool:
    """Whether both systems count as many units in each sample, if the figure is one per unit."""
    (one, other), (ours, theirs) = matched.scores, matched.chosen()
    rule = _figures(matched)[0][metric].get("aggregate")
    return same_units(rule, one.values(metric)[ours], other.values(metric)[theirs])


def _is_higher_better(row: ResultRow) -> bool:
    return bool(row.get("higher_is_better", True))


def _start(matched: Match, figure: ResultRow) -> ResultRow:
    one, other = matched.baseline, matched.other
    return {
        "task": matched.baseline_task,
        **({} if matched.other_task == matched.baseline_task else {"run_task": matched.other_task}),
        **({"kind": figure["kind"]} if "kind" in figure else {}),
        "metric": figure["metric"],
        **{name: figure[name] for name in ("rule", "run_rule") if name in figure},
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
    equal = (after == before) | np.isnan(after) | np.isnan(before)  # a sample may have no score of its own
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
    return {
        "baseline_value": _value(pair, pair.b),
        "run_value": _value(pair, pair.a),
        "difference": found.difference,
        "ci95": list(found.interval) if found.interval else None,
        "p": found.p,
        "p_corrected": found.p_corrected,
        "family": found.family,
        "verdict": ("better" if better else "worse") if found.decided else None,
    }


def _value(pair: Pair, values: Values) -> float | None:
    """Return the figure of one system."""
    if pair.weights is None:
        return pair.reduce(sequence_of(values))
    return float(np.average(np.asarray(values, dtype=np.float64), weights=pair.weights))


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
