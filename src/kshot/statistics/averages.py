"""Averages over the subsets of a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from kshot.core.records import ResultRow
from kshot.core.task import TaskResult
from kshot.statistics.figures import figure
from kshot.statistics.intervals import macro_interval, within_scale


def macro_rows(
    dataset: str, results: Mapping[str, TaskResult], categories: Mapping[str, Sequence[str]] | None
) -> Iterator[ResultRow]:
    """Yield unweighted averages over subsets: of each category whose several subsets all ran, and of all."""
    groups = {
        f"{dataset}[{name.replace('_', ' ').title()} Macro Average]": list(subsets)
        for name, subsets in (categories or {}).items()
        if len(subsets) > 1 and all(subset in results for subset in subsets)
    }
    if len(results) > 1:
        groups[f"{dataset}[Macro Average]"] = list(results)
    for label, subsets in groups.items():
        chosen = [results[subset] for subset in subsets]
        for name, metric in chosen[0].named():
            values = [result.values.get(name, []) for result in chosen]
            if not all(values):
                continue
            reduce = partial(figure, metric, name, f"dataset {label}")
            yield {
                "task": label,
                "model": chosen[0].model,
                "average": "macro",
                "metric": name,
                **({"rule": metric.rule} if metric.rule and metric.rule != name else {}),
                **({"detail": True} if name in metric.details else {"higher_is_better": metric.higher_is_better}),
                "value": sum(reduce(each) for each in values) / len(values),
                "n": sum(len(each) for each in values),
                "failed": sum(result.failed for result in chosen),
                "ci95": within_scale(
                    macro_interval(values, reduce, bounds=metric.bounds),
                    metric,
                    [v for each in values for v in each],
                ),
            }
