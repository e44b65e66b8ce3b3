"""Averages of the figures of several parts: of the subsets of a dataset, the tasks of a group, draws of examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias

from kshot.core.failed_parts import many_failed, most_failed
from kshot.core.metric import Measure
from kshot.core.records import ResultRow
from kshot.core.task import TaskResult
from kshot.statistics.figures import figure, named_rule
from kshot.statistics.intervals import macro_interval, within_scale

Average: TypeAlias = Literal["macro", "weighted"]
"""How subsets are averaged: each counts the same, or by its number of scored samples."""


@dataclass(frozen=True, slots=True)
class AveragedPart:
    """One of the figures that go into an average, with the results it comes from.

    ``value``: None if there is no figure. ``row``: its own row, if it is an average itself.
    """

    name: str
    value: float | None
    results: Sequence[TaskResult]
    weight: float = 1.0
    values: Sequence[Any] = ()
    row: ResultRow = field(default_factory=dict)

    @property
    def is_lost(self) -> bool:
        """Whether more than half of its samples failed, so that averages leave it out."""
        return most_failed(*_counts(self.results))

    @property
    def is_marked(self) -> bool:
        """Whether more than 5 % of its samples failed, so that averages name it."""
        return many_failed(*_counts(self.results))


def _counts(results: Sequence[TaskResult]) -> tuple[int, int]:
    """Return how many samples are scored, and how many failed; each result counts once."""
    once = {id(result): result for result in results}.values()
    return sum(len(result.positions) for result in once), sum(result.failed for result in once)


def weighted_mean(parts: Sequence[AveragedPart]) -> float:
    """Return the weighted mean of parts that all have a figure."""
    return math.fsum(part.weight * (part.value or 0.0) for part in parts) / math.fsum(part.weight for part in parts)


def average_row(
    labels: Mapping[str, Any],
    parts: Sequence[AveragedPart],
    *,
    measure: Measure | None = None,
    summarize: Callable[[Sequence[AveragedPart]], float] = weighted_mean,
    keeps_lost: bool = False,
    named: bool = False,
) -> ResultRow | None:
    """Return the row of an average; None if a part of it has no figure, or all weights are 0.

    Parts of which more than half of the samples failed are left out, unless ``keeps_lost``, as in a sum. If all are
    left out, the value is None. ``measure``: that of the values, for the interval. ``named``: list the parts as
    ``tasks``, so that systems are compared by this average.
    """
    held = [part for part in parts if keeps_lost or not part.is_lost]
    lost = [part for part in parts if part.is_lost and not keeps_lost]
    if any(part.value is None for part in held) or (held and not math.fsum(part.weight for part in held)):
        return None
    n, _ = _counts([result for part in held for result in part.results])
    _, failed = _counts([result for part in parts for result in part.results])
    left_out = [part.name for part in lost] + [name for part in held for name in part.row.get("left_out", ())]
    marked = [part.name for part in held if part.is_marked and not part.row]
    marked += [name for part in held for name in part.row.get("partly_failed", ())]
    return {
        "task": labels["task"],
        "model": parts[0].results[0].model,
        **labels,
        **({"tasks": [part.name for part in held]} if named else {}),
        "value": summarize(held) if held else None,
        "n": n,
        "failed": failed,
        "ci95": None if measure is None else _interval(labels, measure, held),
        **({"left_out": list(dict.fromkeys(left_out))} if left_out else {}),
        **({"partly_failed": list(dict.fromkeys(marked))} if marked else {}),
    }


def _interval(labels: Mapping[str, Any], measure: Measure, parts: Sequence[AveragedPart]) -> list[float] | None:
    values = [part.values for part in parts]
    reduce = partial(figure, measure, f"dataset {labels['task']}")
    found = macro_interval(values, reduce, bounds=measure.bounds, weights=[part.weight for part in parts])
    return within_scale(found, measure, [value for each in values for value in each])


def part_of(result: TaskResult, measure: Measure, where: str = "") -> AveragedPart:
    """Return the figure of a task as a part of an average; errors name ``where``, or else the task."""
    values = result.values.get(measure.name, [])
    value = figure(measure, f"dataset {where or result.task.name}", values) if values else None
    return AveragedPart(result.task.name, value, (result,), values=values)


def average_rows(
    dataset: str,
    results: Mapping[str, TaskResult],
    categories: Mapping[str, Sequence[str]] | None,
    *,
    average: Average = "macro",
) -> Iterator[ResultRow]:
    """Yield averages over subsets: of each category whose several subsets all ran, and of all.

    ``weighted``: by the number of scored samples of each subset. There is no average if a
    subset has no figure, unless most of its samples failed (see ``average_row``), or if fewer than two have one. Models
    are compared by the average of all, so it lists its ``tasks``.
    """
    groups = {
        f"{dataset}[{name.replace('_', ' ').title()} {average.title()} Average]": list(subsets)
        for name, subsets in (categories or {}).items()
        if len(subsets) > 1 and all(subset in results for subset in subsets)
    }
    whole = f"{dataset}[{average.title()} Average]"
    if len(results) > 1:
        groups[whole] = list(results)
    for label, subsets in groups.items():
        chosen = [results[subset] for subset in subsets]
        for measure in next((each for each in chosen if each.positions), chosen[0]).measures():
            parts = [part_of(result, measure, label) for result in chosen]
            if sum(part.value is not None for part in parts) < 2:  # noqa: PLR2004 - a single one is no average
                continue
            labels = {
                "task": label,
                "dataset": dataset,
                "average": average,
                "metric": measure.name,
                **named_rule(measure),
                **({"detail": True} if measure.detail else {"higher_is_better": measure.higher_is_better}),
            }
            if average == "weighted":
                parts = [replace(part, weight=float(len(part.values))) for part in parts]
            row = average_row(labels, parts, measure=measure, named=label == whole and not measure.detail)
            if row is not None:
                yield row
