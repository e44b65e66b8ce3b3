"""Figures of groups: the mean of a metric over the tasks below a group, weighted by their documents or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kshot.core.metric import Measure
from kshot.core.records import ResultRow
from kshot.core.task import TaskResult
from kshot.lmeval.tree import Group, GroupAggregate, leaves
from kshot.statistics.averages import AveragedPart, average_row, part_of


@dataclass(frozen=True, slots=True)
class _GroupPart:
    """One figure of one task: its measure, and the part of the average that it is."""

    measure: Measure
    result: TaskResult
    part: AveragedPart

    @property
    def labels(self) -> Mapping[str, Any]:
        """What the figure is in lm-eval."""
        return self.result.task.metric_labels.get(self.measure.name, {})

    @property
    def scale(self) -> float:
        """How many times lm-eval's figure it is."""
        return float(self.labels.get("scale", 1.0))


def group_rows(groups: Iterable[Group], results: Sequence[TaskResult]) -> Iterator[ResultRow]:
    """Yield the figures of groups, of which at least one task ran, for each model; ``results`` have tasks by name."""
    models = dict.fromkeys(result.model for result in results)
    for group in groups:
        names = {leaf.name for leaf in leaves(group)}
        for model in models:
            own = [result for result in results if result.model == model and result.task.name in names]
            for aggregate in group.aggregates:
                yield from _rows(group, aggregate, own)


def _rows(group: Group, aggregate: GroupAggregate, results: Sequence[TaskResult]) -> Iterator[ResultRow]:
    found = {filter_name: list(_parts(results, aggregate.metric, filter_name)) for filter_name in _filters(results)}
    wanted = sorted(found) if aggregate.filters is None else aggregate.filters
    told = {filter_name: parts for filter_name in wanted if (parts := found.get(filter_name))}
    for filter_name, parts in told.items():
        metric = aggregate.metric if len(told) == 1 else f"{aggregate.metric},{filter_name}"
        if row := _row(group, aggregate, parts, metric):
            yield row


def _filters(results: Sequence[TaskResult]) -> dict[str, None]:
    labels = [label for result in results for label in result.task.metric_labels.values()]
    return dict.fromkeys(str(label["filter"]) for label in labels if "filter" in label)


def _parts(results: Sequence[TaskResult], metric: str, filter_name: str) -> Iterator[_GroupPart]:
    for result in results:
        measures = {measure.name: measure for measure in result.measures()}
        for name, label in result.task.metric_labels.items():
            if (label.get("lmeval_metric"), label.get("filter")) != (metric, filter_name) or name not in measures:
                continue
            part = part_of(result, measures[name])
            if part.value is not None or part.is_lost:
                yield _GroupPart(measures[name], result, part)


def _row(group: Group, aggregate: GroupAggregate, parts: Sequence[_GroupPart], metric: str) -> ResultRow | None:
    held = [each for each in parts if not each.part.is_lost] or parts
    first = held[0]
    alike = all(each.scale == first.scale for each in held)  # else on the scale of lm-eval, which they share
    labels = {
        "task": group.name,
        "dataset": group.name,
        "average": _kind(aggregate, held, metric) if alike else "group",
        "metric": metric,
        **first.labels,
        "scale": first.scale if alike else 1.0,
        "higher_is_better": first.measure.higher_is_better,
    }
    averaged = []
    for each in parts:
        value = each.part.value if alike or each.part.value is None else each.part.value / each.scale
        weight = float(len(each.result.positions)) if aggregate.weighted else 1.0
        averaged.append(replace(each.part, value=value, weight=weight))
    return average_row(labels, averaged, measure=first.measure if alike else None, named=True)


def _kind(aggregate: GroupAggregate, parts: Sequence[_GroupPart], metric: str) -> str:
    """Return which average it is, so that runs can be compared by it; of figures with other names, a group's own."""
    if any(part.measure.name != metric for part in parts):
        return "group"
    return "weighted" if aggregate.weighted else "macro"
