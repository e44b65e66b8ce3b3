"""Group averages of a config's ``summarizer``: ``dict(name=…, subsets=[…], weights={…})``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import ResultRow
from kshot.core.task import TaskResult
from kshot.statistics.figures import figure
from kshot.statistics.intervals import macro_interval, within_scale

_KINDS = {"std": "standard_deviation", "sum": "sum", "harmonic_mean": "harmonic_mean"}
"""The options of a group that ask for something else than an average, and what its figure is then called."""


def summary_groups(variables: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the groups of a config: those of its summarizer, else those of all variables ``…summary_groups``."""
    summarizer = variables.get("summarizer")
    listed = summarizer.get("summary_groups") if isinstance(summarizer, Mapping) else None
    if not isinstance(listed, (list, tuple)):
        named = [value for name, value in variables.items() if name.endswith("summary_groups")]
        listed = [group for value in named if isinstance(value, (list, tuple)) for group in value]
    return [group for group in listed if isinstance(group, Mapping) and "name" in group and "subsets" in group]


@dataclass(frozen=True, slots=True)
class _GroupFigures:
    """The figures of a task or group: their values in order, and the results that they come from."""

    values: Mapping[str, float]
    results: tuple[TaskResult, ...]

    def has(self, metric: str) -> bool:
        """Whether there is a figure of this metric; of any, if it has no name."""
        return metric in self.values if metric else bool(self.values)


def group_rows(groups: Sequence[Mapping[str, Any]], results: Sequence[TaskResult], where: str) -> Iterator[ResultRow]:
    """Yield the figures of each group whose parts all ran; a part may be a group before it.

    A group has every figure that all of its parts have. Where their first figures differ, or the group asks for another
    kind of summary, that of the first figures has the name of its kind: ``naive_average``, ``weighted_average``, ….
    """
    known = {result.task.name: _of_task(result) for result in results}
    for group in groups:
        name, subsets = str(group["name"]), [_part(each) for each in group["subsets"]]
        if not subsets or any(part not in known or not known[part].has(metric) for part, metric in subsets):
            continue
        found = dict(_summaries(group, subsets, known, where))
        parts = tuple(result for part, _ in subsets for result in known[part].results)
        known[name] = _GroupFigures(found, parts)
        for metric, value in found.items():
            yield {
                "task": name,
                "model": parts[0].model,
                "dataset": name,
                "average": "group",
                "metric": metric,
                "higher_is_better": _higher_is_better(parts, metric),
                "value": value,
                "n": sum(len(result.positions) for result in parts),
                "failed": sum(result.failed for result in parts),
                "ci95": _interval(group, metric, parts) if len(parts) == len(subsets) else None,
            }


def _part(text: Any) -> tuple[str, str]:
    """Return the task of a part, and its metric where it names one."""
    if isinstance(text, (list, tuple)) and len(text) == 2:  # noqa: PLR2004 - a task and a metric
        return str(text[0]), str(text[1])
    return str(text), ""


def _of_task(result: TaskResult) -> _GroupFigures:
    figures = {
        name: found
        for name, metric in result.named()
        if (values := result.values.get(name))
        and (found := figure(metric, name, f"dataset {result.task.name}", values)) is not None
    }
    return _GroupFigures(figures, (result,))


def _summaries(
    group: Mapping[str, Any], subsets: Sequence[tuple[str, str]], known: Mapping[str, _GroupFigures], where: str
) -> Iterator[tuple[str, float]]:
    kind = next((title for option, title in _KINDS.items() if group.get(option)), "")
    own = str(group.get("metric") or kind or ("weighted_average" if group.get("weights") else "naive_average"))
    firsts = [metric or next(iter(known[part].values), "") for part, metric in subsets]
    shared = [name for name in known[subsets[0][0]].values if all(name in known[part].values for part, _ in subsets)]
    if not any(metric for _, metric in subsets):
        for name in shared:
            yield name, _summed([known[part].values[name] for part, _ in subsets], group, subsets, kind, where)
    if (own not in shared and (len(set(firsts)) > 1 or firsts[0] not in shared)) or kind or group.get("weights"):
        values = [known[part].values[first] for (part, _), first in zip(subsets, firsts, strict=True)]
        yield own, _summed(values, group, subsets, kind, where)


def _summed(
    values: Sequence[float], group: Mapping[str, Any], subsets: Sequence[tuple[str, str]], kind: str, where: str
) -> float:
    mean = math.fsum(values) / len(values)
    if kind == "standard_deviation":
        return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    if kind == "sum":
        return math.fsum(values)
    if kind == "harmonic_mean":
        floor = 0.0 if all(value > 0 for value in values) else 1.0  # as OpenCompass does where a value is 0
        return len(values) / math.fsum(1 / max(value, floor) for value in values)
    weights = _weights(group, subsets, where)
    return math.fsum(w * value for w, value in zip(weights, values, strict=True)) / math.fsum(weights)


def _weights(group: Mapping[str, Any], subsets: Sequence[tuple[str, str]], where: str) -> list[float]:
    given = group.get("weights") or {}
    if not isinstance(given, Mapping) or not given:
        return [1.0] * len(subsets)
    names = [(f"{part}@{metric}" if f"{part}@{metric}" in given else part) for part, metric in subsets]
    weights = [given.get(name, 0) for name in names]
    if not all(isinstance(each, (int, float)) for each in weights) or not sum(weights) > 0:
        raise DataError(f"the weights of the group {group['name']!r} cannot be used: {given!r:.120}", where=where)
    return [float(each) for each in weights]


def _higher_is_better(parts: Sequence[TaskResult], metric: str) -> bool:
    scorers = [dict(result.named()) for result in parts]
    return all(each[metric].higher_is_better for each in scorers if metric in each)


def _interval(group: Mapping[str, Any], metric: str, parts: Sequence[TaskResult]) -> tuple[float, float] | None:
    """Return the interval of an average of tasks; other summaries have none."""
    scorer = dict(parts[0].named()).get(metric)
    if scorer is None or any(group.get(option) for option in _KINDS):
        return None
    values = [result.values.get(metric, []) for result in parts]
    if not all(values):
        return None
    weights = _weights(group, [(result.task.name, "") for result in parts], "")
    reduce = partial(figure, scorer, metric, f"group {group['name']}")
    found = macro_interval(values, reduce, bounds=scorer.bounds, weights=weights)
    cut = within_scale(found, scorer, [value for each in values for value in each])
    return None if cut is None else (cut[0], cut[1])
