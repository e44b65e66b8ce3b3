"""What is compared with what: systems of runs, their tasks, and the samples of two tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.core.errors import RunError
from kshot.core.records import ResultRow
from kshot.core.visible import listed
from kshot.runs.compared_run import ComparedRun, TaskScores
from kshot.runs.swept_rows import BASE, SAME, SWEEP

_MAX_IDS = 5
"""Ids that a message lists."""


@dataclass(frozen=True, slots=True)
class ComparedSystem:
    """A model of a run, and its label in tables."""

    run: ComparedRun
    model: str
    label: str

    def tasks(self) -> list[str]:
        """The tasks of the model, in their order."""
        return self.run.tasks(self.model)

    def averages(self) -> list[ResultRow]:
        """The averages over subsets."""
        return [row for row in self.run.averages if row["model"] == self.model]

    def swept(self, task: str) -> Mapping[str, Any]:
        """The values of a task that is a point of a sweep; none of another."""
        row = next(iter(self.run.figures[task, self.model].values()))
        values = row.get(SWEEP)
        return values if isinstance(values, Mapping) else {}

    def base(self, task: str) -> str:
        """The name that a task has without the values of a sweep."""
        row = next(iter(self.run.figures[task, self.model].values()))
        return str(row.get(BASE, task))

    def same(self, task: str) -> str | None:
        """The earlier task of a sweep that has the same prompts, if any."""
        return next(iter(self.run.figures[task, self.model].values()), {}).get(SAME)

    def scores(self, task: str) -> TaskScores:
        """The scores of a task."""
        return self.run.scores[task, self.model]


def system_pairs(
    runs: Sequence[ComparedRun], *, all_pairs: bool = False, every_system: bool = False
) -> list[tuple[ComparedSystem, ComparedSystem]]:
    """Return which systems are compared, the baseline first: see ``kshot.comparing.compare``."""
    if every_system and len(runs) > 1:
        return list(combinations([_system(run, model) for run in runs for model in run.models], 2))
    if len(runs) == 1:
        run = runs[0]
        alone = [ComparedSystem(run, model, model) for model in run.models]
        if len(alone) < 2:  # noqa: PLR2004 - a system and its baseline
            what = f"this run has {len(alone)} model, and nothing to compare it with"
            raise RunError(what, where=run.name, hint="Name a second run.")
        return list(combinations(alone, 2)) if all_pairs or every_system else [(alone[0], other) for other in alone[1:]]
    return [systems for one, other in _run_pairs(runs, all_pairs=all_pairs) for systems in _systems(one, other)]


def _run_pairs(runs: Sequence[ComparedRun], *, all_pairs: bool) -> list[tuple[ComparedRun, ComparedRun]]:
    return list(combinations(runs, 2)) if all_pairs else [(runs[0], other) for other in runs[1:]]


def left_out_models(runs: Sequence[ComparedRun], *, all_pairs: bool = False) -> Iterator[str]:
    """Say which models are no part of a comparison of two runs: those of one alone, if the runs share others."""
    for pair in _run_pairs(runs, all_pairs=all_pairs):
        for one, other in (pair, pair[::-1]):
            left = [model for model in one.models if model not in other.models]
            if left and len(left) < len(one.models):
                them = f"the model{'s' if len(left) > 1 else ''} {', '.join(left)}"
                yield f"{one.label} has {them}, which {other.label} does not have: not compared with it"


def _systems(one: ComparedRun, other: ComparedRun) -> Iterator[tuple[ComparedSystem, ComparedSystem]]:
    shared = [model for model in one.models if model in other.models]
    for a, b in [(model, model) for model in shared] or product(one.models, other.models):
        yield _system(one, a), _system(other, b)


def _system(run: ComparedRun, model: str) -> ComparedSystem:
    return ComparedSystem(run, model, f"{run.label} · {model}" if len(run.models) > 1 else run.label)


# ---- tasks ----


def task_pairs(baseline: ComparedSystem, other: ComparedSystem) -> list[tuple[str, str]]:
    """Return which tasks of two systems are compared: those of one name, and others that ask the same questions.

    Of the others, those come first whose names differ by the values of a sweep alone. Of the rest, one task is compared
    with every task of the other system that asks the same, as a task without examples with each draw of examples; where
    both systems have several, they are compared in their order. Points of two sweeps are compared only where no option
    has another value, and once where two points of both have the same prompts.
    """
    ones, others = baseline.tasks(), other.tasks()
    found = [(task, task) for task in ones if task in others]
    left, right = [t for t in ones if t not in others], [t for t in others if t not in ones]
    lonely = len(left) == len(right) == 1
    same = {
        (a, b)
        for a, b in product(left, right)
        if _same_point(baseline.swept(a), other.swept(b))
        and _asks_the_same(baseline.scores(a), other.scores(b), lonely=lonely)
    }
    named = [(a, b) for a, b in product(left, right) if (a, b) in same and baseline.base(a) == other.base(b)]
    found += named
    ones_named, others_named = {a for a, _ in named}, {b for _, b in named}
    same = {(a, b) for a, b in same if a not in ones_named and b not in others_named}
    while same:
        first = next(task for task in left if any(task == a for a, _ in same))
        rights = [task for task in right if (first, task) in same]
        lefts = [task for task in left if (task, rights[0]) in same]
        several = len(lefts) > 1 and len(rights) > 1
        found += zip(lefts, rights, strict=False) if several else product(lefts, rights)
        same = {(a, b) for a, b in same if a not in lefts and b not in rights}
    return [(a, b) for a, b in found if (baseline.same(a), other.same(b)) not in found]


def _same_point(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two points of sweeps have the same values of the options that both have; a task alone is no point."""
    return all(other[name] == value for name, value in one.items() if name in other)


def _asks_the_same(one: TaskScores, other: TaskScores, *, lonely: bool) -> bool:
    """Whether two tasks share questions: half of those of the smaller one, or any where no other task is left."""
    _, at, there = np.intersect1d(one.ids, other.ids, assume_unique=True, return_indices=True)
    shared = int((one.questions[at] == other.questions[there]).sum())
    return shared > 0 and (lonely or 2 * shared >= min(len(one), len(other)))


# ---- samples ----


@dataclass(frozen=True, slots=True)
class Match:
    """One task of two systems: which samples both have, by their positions in the scores of each.

    ``answered`` says which of these have an answer on both sides.
    """

    baseline: ComparedSystem
    other: ComparedSystem
    baseline_task: str
    other_task: str
    ours: NDArray[np.int64]
    theirs: NDArray[np.int64]
    answered: NDArray[np.bool_]

    @property
    def scores(self) -> tuple[TaskScores, TaskScores]:
        """The scores of the baseline and of the other system."""
        return self.baseline.scores(self.baseline_task), self.other.scores(self.other_task)

    def counts(self, category: str | None = None) -> dict[str, int]:
        """Return how many samples only one side has, and how many shared ones failed on each side and on either."""
        one, other = self.scores
        here, there = (_of_category(each, category) for each in (one, other))
        both = here[self.ours]
        return {
            "only_baseline": int(here.sum()) - int(both.sum()),
            "only_run": int(there.sum()) - int(there[self.theirs].sum()),
            "failed_baseline": int((one.failed[self.ours] & both).sum()),
            "failed_run": int((other.failed[self.theirs] & both).sum()),
            "failed": int((~self.answered & both).sum()),
        }

    def chosen(self, category: str | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of the samples that both answered, of one category or of all."""
        mask = self.answered & _of_category(self.scores[0], category)[self.ours]
        return self.ours[mask], self.theirs[mask]


def _of_category(scores: TaskScores, category: str | None) -> NDArray[np.bool_]:
    if category is None:
        return np.ones(len(scores), dtype=np.bool_)
    if category not in scores.category_names:
        return np.zeros(len(scores), dtype=np.bool_)
    found: NDArray[np.bool_] = scores.categories == scores.category_names.index(category)
    return found


def match(baseline: ComparedSystem, other: ComparedSystem, tasks: tuple[str, str]) -> Match:
    """Pair the samples of two tasks by their ids; an id that asks another question on the other side is refused."""
    one, theirs = baseline.scores(tasks[0]), other.scores(tasks[1])
    _, at, there = np.intersect1d(one.ids, theirs.ids, assume_unique=True, return_indices=True)
    differ = np.flatnonzero(one.questions[at] != theirs.questions[there])
    if len(differ):
        first = sorted(differ, key=lambda each: int(one.places[at[each]]))[: _MAX_IDS + 1]
        ids = listed(list(baseline.run.ids(one, [int(at[each]) for each in first])), _MAX_IDS)
        raise RunError(
            f"{len(differ)} of the {len(at)} samples that both runs have ask other questions (ids: {ids})",
            where=f"{tasks[0]} in {baseline.run.label} and {other.run.label}",
            hint="The data have changed between the runs: run both on the same data.",
        )
    return Match(baseline, other, *tasks, at, there, ~(one.failed[at] | theirs.failed[there]))
