"""Figures of groups: the mean of a metric over the tasks below a group, weighted by their documents or not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kshot.core.protocols import Scorer
from kshot.core.records import ResultRow
from kshot.core.task import TaskResult
from kshot.lmeval.tree import Aggregate, Group, leaves
from kshot.statistics.figures import figure
from kshot.statistics.intervals import macro_interval, within_scale


@dataclass(frozen=True, slots=True)
class _GroupPart:
    """One figure of one task: its value, its metric and the result that it comes from."""

    name: str
    value: float
    scorer: Scorer
    result: TaskResult

    @property
    def size(self) -> int:
        """The number of documents."""
        return len(self.result.positions)

    @property
    def labels(self) -> Mapping[str, Any]:
        """What the figure is in lm-eval."""
        return self.result.task.metric_labels.get(self.name, {})

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


def _rows(group: Group, aggregate: Aggregate, results: Sequence[TaskResult]) -> Iterator[ResultRow]:
    found = {filter_name: list(_parts(results, aggregate.metric, filter_name)) for filter_name in _filters(results)}
    wanted = sorted(found) if aggregate.filters is None else aggregate.filters
    told = {filter_name: parts for filter_name in wanted if (parts := found.get(filter_name))}
    for filter_name, parts in told.items():
        yield _row(group, aggregate, parts, aggregate.metric if len(told) == 1 else f"{aggregate.metric},{filter_name}")


def _filters(results: Sequence[TaskResult]) -> dict[str, None]:
    labels = [label for result in results for label in result.task.metric_labels.values()]
    return dict.fromkeys(str(label["filter"]) for label in labels if "filter" in label)


def _parts(results: Sequence[TaskResult], metric: str, filter_name: str) -> Iterator[_GroupPart]:
    for result in results:
        scorers = dict(result.named())
        for name, label in result.task.metric_labels.items():
            if (label.get("lmeval_metric"), label.get("filter")) != (metric, filter_name) or name not in scorers:
                continue
            values = result.values.get(name)
            value = figure(scorers[name], name, f"dataset {result.task.name}", values) if values else None
            if value is not None:
                yield _GroupPart(name, value, scorers[name], result)


def _row(group: Group, aggregate: Aggregate, parts: Sequence[_GroupPart], metric: str) -> ResultRow:
    first = parts[0]
    weights = [float(part.size) if aggregate.weighted else 1.0 for part in parts]
    alike = all(part.scale == first.scale for part in parts)  # else on the scale of lm-eval, which they share
    values = [part.value if alike else part.value / part.scale for part in parts]
    value = math.fsum(w * each for w, each in zip(weights, values, strict=True)) / math.fsum(weights)
    return {
        "task": group.name,
        "model": first.result.model,
        "dataset": group.name,
        "average": _kind(aggregate, parts, metric) if alike else "group",
        "tasks": [part.result.task.name for part in parts],
        "metric": metric,
        **first.labels,
        "scale": first.scale if alike else 1.0,
        "higher_is_better": first.scorer.higher_is_better,
        "value": value,
        "n": sum(part.size for part in parts),
        "failed": sum(part.result.failed for part in parts),
        "ci95": _interval(group, parts, weights) if alike else None,
    }


def _kind(aggregate: Aggregate, parts: Sequence[_GroupPart], metric: str) -> str:
    """Return which average it is, so that runs can be compared by it; of figures with other names, a group's own."""
    if any(part.name != metric for part in parts):
        return "group"
    return "weighted" if aggregate.weighted else "macro"


def _interval(group: Group, parts: Sequence[_GroupPart], weights: Sequence[float]) -> list[float] | None:
    """Return the interval of the average of figures that have one scale."""
    first = parts[0]
    values = [part.result.values[part.name] for part in parts]
    reduce = partial(figure, first.scorer, first.name, f"group {group.name}")
    found = macro_interval(values, reduce, bounds=first.scorer.bounds, weights=weights)
    return within_scale(found, first.scorer, [value for each in values for value in each])
