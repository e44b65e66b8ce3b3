"""The samples that one run gets right and another does not, paired as ``kshot compare`` pairs them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kshot.core.errors import RunError
from kshot.core.records import ResultRow
from kshot.runs.compared_run import (
    ComparedRun,
    TaskScores,
    check_figure,
    check_ids,
    measure_conflict,
    name_runs,
    read_figures,
    read_scores,
)
from kshot.runs.headline import TaskOnModel, task_rows
from kshot.runs.pairing import ComparedSystem, Match, match, system_pairs, task_pairs
from kshot.runs.record import RunRecord
from kshot.runs.sample_filters import MetricScale, metric_scales
from kshot.statistics.resampling import mean, sequence_of

if TYPE_CHECKING:
    from kshot.runs.comparing import Comparison


@dataclass(frozen=True, slots=True)
class Counterpart:
    """A sample in the other run: where its row stands, and the scale by which it is right there."""

    place: int
    scale: MetricScale


@dataclass(frozen=True, slots=True)
class FlippedSamples:
    """The samples that flipped, by their places in the one run; ``labels`` name the two runs."""

    labels: tuple[str, str]
    counterparts: Mapping[int, list[Counterpart]]


@dataclass(frozen=True, slots=True)
class PairedTask:
    """A task of two systems, and the scale by which samples of both are right; None: they share no such metric.

    ``conflict`` says why a metric of one name is another measure on each side.
    """

    one: ComparedSystem
    other: ComparedSystem
    tasks: tuple[str, str]
    scale: MetricScale | None
    conflict: str | None = None

    def match(self) -> Match:
        """Pair the samples."""
        return match(self.one, self.other, self.tasks)


def flipped_samples(run: RunRecord, other: RunRecord, scales: Mapping[TaskOnModel, MetricScale]) -> FlippedSamples:
    """Find the samples that exactly one of two runs gets right, of those that both answered.

    ``scales`` are those of the one run, by which samples are right; tasks without one are left out. A metric that is
    another measure in the other run is an error, and so are samples that are not those of the figures.
    """
    runs = ComparedRun(run, {}), ComparedRun(other, {})
    found: dict[int, list[Counterpart]] = {}
    for pair in paired_tasks(runs, scales):
        if pair.conflict is not None:
            hint = "--task chooses other tasks, --metric another metric."
            raise RunError(pair.conflict, where=pair.tasks[0], hint=hint)
        if pair.scale is not None:
            matched = pair.match()
            rights, theirs = right_samples(matched, pair.scale)
            at, there = matched.chosen()
            (one, two) = matched.scores
            for index in np.flatnonzero(rights != theirs):
                place = Counterpart(int(two.places[there[index]]), pair.scale)
                found.setdefault(int(one.places[at[index]]), []).append(place)
    return FlippedSamples((runs[0].label, runs[1].label), found)


def paired_tasks(
    runs: tuple[ComparedRun, ComparedRun], scales: Mapping[TaskOnModel, MetricScale]
) -> Iterator[PairedTask]:
    """Read the scores of two runs, and yield which tasks of them are compared.

    Samples that are not those of the figures are an error, and so are runs without a task and metric in common.
    """
    name_runs(runs)
    mine, yours = (_loaded(each, {scale.metric for scale in scales.values()}) for each in runs)
    compared = False
    for one, two in system_pairs(runs):
        for pair in task_pairs(one, two):
            scale, conflict = scales.get((pair[0], one.model)), None
            if scale is not None and scale.metric in mine[pair[0], one.model].keys() & yours[pair[1], two.model].keys():
                compared = True
                figures = mine[pair[0], one.model][scale.metric], yours[pair[1], two.model][scale.metric]
                conflict = _conflict(*figures, scale, (one.label, two.label), runs[1].record)
            else:
                scale = None
            yield PairedTask(one, two, pair, scale if conflict is None else None, conflict)
    if not compared:
        what = "the runs have no task and metric in common"
        raise RunError(what, where=f"{runs[0].name} and {runs[1].name}", hint="kshot compare says what each one has.")


def right_samples(matched: Match, scale: MetricScale) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which samples that both sides answered (``Match.chosen``) each side gets right."""
    sides = []
    for scores, at in zip(matched.scores, matched.chosen(), strict=True):
        values, codes = np.unique(scores.scores[scale.metric][at], return_inverse=True)
        sides.append(np.array([scale.is_right(value) for value in values], dtype=np.bool_)[codes])
    return sides[0], sides[1]


def _loaded(run: ComparedRun, metrics: Collection[str]) -> dict[TaskOnModel, dict[str, ResultRow]]:
    """Read the scores of a run by these metrics, also by those that are details; return their figures."""
    read_figures(run)
    figures: dict[TaskOnModel, dict[str, ResultRow]] = {key: {} for key in run.figures}
    for row in task_rows(run.record.results):
        if row["metric"] in metrics and (row["task"], row["model"]) in figures:
            figures[row["task"], row["model"]][row["metric"]] = row
    run.scores = read_scores(run.placed(), figures, run.name)
    check_ids(run)
    for key, rows in figures.items():
        for row in rows.values():
            _check_samples(row, run.scores.get(key), run.name)
    return figures


def _check_samples(row: ResultRow, scores: TaskScores | None, where: str) -> None:
    """Refuse samples that are not those of a figure, as comparing does; a detail counts only some of them."""
    if row.get("detail"):
        return
    if scores is None:
        check_figure(row, 0, 0, None, where)
        return
    values = sequence_of(scores.scores[row["metric"]][~scores.failed])
    is_mean = row.get("aggregate") is None and row.get("value") is not None
    value = mean(values) if is_mean and values else row.get("value") if values else None
    check_figure(row, len(values), int(scores.failed.sum()), value, where)


def _conflict(
    mine: ResultRow, yours: ResultRow, scale: MetricScale, labels: tuple[str, str], other: RunRecord
) -> str | None:
    """Return why two figures of one name are not the same measure: what is right for one is not for the other."""
    conflict = measure_conflict(mine, yours, labels)
    theirs = metric_scales(other.results, scale.metric)[yours["task"], yours["model"]]
    if conflict is None and (theirs.worst, theirs.best, theirs.upwards) != (scale.worst, scale.best, scale.upwards):
        conflict = f"only one of {labels[0]} and {labels[1]} says the scale of {scale.metric}, and it is not 0 to 100"
    return conflict


_OUTCOMES = "nlwb"
"""By whether the baseline is right (1), and whether the run is (2)."""


class PairedPlaces(NamedTuple):
    """The samples that two systems share in one task: where their rows stand, in the order of the baseline.

    ``outcomes`` has a letter for each: ``w`` (the run alone is right), ``l`` (the baseline alone), ``b`` (both), ``n``
    (neither), or ``-`` where one of them did not answer, or no metric that was compared says what is right.
    """

    match: Match
    baseline: NDArray[np.uint64]
    run: NDArray[np.uint64]
    outcomes: str


def paired_places(comparison: Comparison) -> Iterator[PairedPlaces]:
    """Yield the samples of each two tasks that were compared; the headline of the task in the run says who is right."""
    compared: dict[int, set[str]] = defaultdict(set)
    for row in comparison.rows:
        compared[id(comparison.match_of(row))].add(row["metric"])
    for matched in comparison.matches():
        scale = metric_scales(matched.other.run.record.results).get((matched.other_task, matched.other.model))
        known = scale is not None and scale.metric in compared[id(matched)]
        letters = _outcomes(matched, scale if known else None)
        one, other = matched.scores
        places = one.places[matched.ours]
        order = np.argsort(places, kind="stable")
        yield PairedPlaces(matched, places[order], other.places[matched.theirs][order], "".join(letters[order]))


def _outcomes(match: Match, scale: MetricScale | None) -> NDArray[np.str_]:
    letters = np.full(len(match.ours), "-")
    if scale is not None:
        rights, theirs = right_samples(match, scale)
        letters[match.answered] = np.array(list(_OUTCOMES))[rights + 2 * theirs.astype(np.int64)]
    return letters
