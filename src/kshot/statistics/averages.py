"""Averages over the subsets of a dataset."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, TypeAlias

from kshot.core.records import ResultRow
from kshot.core.task import TaskResult
from kshot.statistics.figures import figure, named_rule
from kshot.statistics.intervals import macro_interval, within_scale

Average: TypeAlias = Literal["macro", "weighted"]
"""How subsets are averaged: each counts the same, or by its number of scored samples."""


def average_rows(
    dataset: str,
    results: Mapping[str, TaskResult],
    categories: Mapping[str, Sequence[str]] | None,
    *,
    average: Average = "macro",
) -> Iterator[ResultRow]:
    """Yield averages over subsets: of each category whose several subsets all ran, and of all.

    ``weighted``: by the number of scored samples of each subset. Where a subset has no figure, there is no average of
    it. Models are compared by the average of all, so that it
    names its ``tasks``.
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
        for name, metric in chosen[0].named():
            values = [result.values.get(name, []) for result in chosen]
            if not all(values):
                continue
            reduce = partial(figure, metric, name, f"dataset {label}")
            figures = [found for each in values if (found := reduce(each)) is not None]
            if len(figures) < len(values):
                continue
            weights = [float(len(each)) if average == "weighted" else 1.0 for each in values]
            yield {
                "task": label,
                "model": chosen[0].model,
                "dataset": dataset,
                "average": average,
                "metric": name,
                **named_rule(name, metric),
                **(
                    {"tasks": [result.task.name for result in chosen]}
                    if label == whole and name not in metric.details
                    else {}
                ),
                **({"detail": True} if name in metric.details else {"higher_is_better": metric.higher_is_better}),
                "value": math.fsum(map(math.prod, zip(weights, figures, strict=True))) / math.fsum(weights),
                "n": sum(len(each) for each in values),
                "failed": sum(result.failed for result in chosen),
                "ci95": within_scale(
                    macro_interval(values, reduce, bounds=metric.bounds, weights=weights),
                    metric,
                    [v for each in values for v in each],
                ),
            }
