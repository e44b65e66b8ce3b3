"""The samples that one run gets right and another does not, paired as ``kshot compare`` pairs them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kshot.core.errors import RunError
from kshot.runs.compared_run import ComparedRun, check_ids, name_runs, read_figures
from kshot.runs.headline import TaskOnModel, task_rows
from kshot.runs.pairing import Match, match, system_pairs, task_pairs
from kshot.runs.record import RunRecord
from kshot.runs.sample_scores import read_scores
from kshot.runs.sample_verdicts import MetricScale


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


def flipped_samples(run: RunRecord, other: RunRecord, scales: Mapping[TaskOnModel, MetricScale]) -> FlippedSamples:
    """Find the samples that exactly one of two runs gets right, of those that both answered.

    ``scales`` are those of the one run; the samples of the other are judged by the same.
    """
    runs = [ComparedRun(run, {}), ComparedRun(other, {})]
    name_runs(runs)
    for each in runs:
        read_figures(each)
        each.scores = read_scores(each.placed(), _wanted(each, {scale.metric for scale in scales.values()}), each.name)
        check_ids(each)
    found: dict[int, list[Counterpart]] = {}
    compared = False
    for one, two in system_pairs(runs):
        for pair in task_pairs(one, two):
            matched = match(one, two, pair)
            scale = scales.get((pair[0], one.model))
            if scale is not None and all(scale.metric in scores.scores for scores in matched.scores):
                compared = True
                for here, there in _flips(matched, scale):
                    found.setdefault(here, []).append(Counterpart(there, scale))
    if not compared:
        what = "the runs have no task and metric in common"
        raise RunError(what, where=f"{runs[0].name} and {runs[1].name}", hint="kshot compare says what each one has.")
    return FlippedSamples((runs[0].label, runs[1].label), found)


def _wanted(run: ComparedRun, metrics: Collection[str]) -> dict[TaskOnModel, list[str]]:
    """Return which of the metrics each task and model of a run has, also those that are details."""
    wanted: dict[TaskOnModel, list[str]] = {key: [] for key in run.figures}
    for row in task_rows(run.record.results):
        if row["metric"] in metrics and (row["task"], row["model"]) in wanted:
            wanted[row["task"], row["model"]].append(row["metric"])
    return wanted


def _flips(matched: Match, scale: MetricScale) -> Iterator[tuple[int, int]]:
    """Yield the places of the samples that one side gets right and the other does not."""
    (one, other), (ours, theirs) = matched.scores, matched.chosen()
    sides = []
    for scores, at in ((one, ours), (other, theirs)):
        values, codes = np.unique(scores.scores[scale.metric][at], return_inverse=True)
        sides.append(np.array([scale.is_right(value) for value in values], dtype=bool)[codes])
    for index in np.flatnonzero(sides[0] != sides[1]):
        yield int(one.places[ours[index]]), int(other.places[theirs[index]])
