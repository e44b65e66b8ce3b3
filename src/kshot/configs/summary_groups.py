"""Group averages of a config's ``summarizer``: ``dict(name=…, subsets=[…], weights={…})``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import ResultRow
from kshot.core.task import TaskResult
from kshot.statistics.averages import AveragedPart, average_row, part_of, weighted_mean

_KINDS = {"std": "standard_deviation", "sum": "sum", "harmonic_mean": "harmonic_mean"}
"""The options of a group that ask for something else than an average, and what its figure is then called."""


def summary_groups(variables: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the groups of a config that can be used: of its summarizer, else of all variables ``…summary_groups``."""
    return [group for group in _written_groups(variables) if not _fault(group)]


def group_notes(variables: Mapping[str, Any], tasks: Collection[str]) -> Iterator[str]:
    """Yield a note on each group that is written wrongly, which has no figures; ``tasks`` are those of the config."""
    written = _written_groups(variables)
    if not written:
        return
    for group in written:
        if fault := _fault(group):
            yield f"a summary group is left out: {fault}"
    groups = {str(group["name"]): _parts(group) for group in summary_groups(variables)}
    parts = {name: [part for part, _ in listed if part != name] for name, listed in groups.items()}  # its own: a task
    for name, listed in groups.items():
        again = [part for (part, _), count in Counter(listed).items() if count > 1 and part in tasks]
        if again:
            yield f"the summary group {name!r:.60} names {again[0]!r:.60} more than once, and counts it as often"
        if name not in tasks and name in _reached(parts[name], parts, tasks):
            yield f"the summary group {name!r:.60} is left out: it is a part of one of its parts"


def _reached(named: Sequence[str], parts: Mapping[str, Sequence[str]], tasks: Collection[str]) -> set[str]:
    """Return everything that a group is made of, through other groups too."""
    found: set[str] = set()
    waiting = list(named)
    while waiting:
        part = waiting.pop()
        if part not in found:
            found.add(part)
            waiting += parts.get(part, ()) if part not in tasks else ()
    return found


def _fault(group: Any) -> str:
    """Return what is wrong with how a group is written, or an empty text."""
    if not isinstance(group, Mapping):
        return f"it is {group!r:.60}, not dict(name=…, subsets=[…])"
    name = group.get("name")
    if not isinstance(name, str) or not name:
        return f"its name is {name!r:.60}; it must be text"
    subsets = group.get("subsets")
    if not isinstance(subsets, (list, tuple)):
        return f"the subsets of {name!r:.60} are {subsets!r:.60}; they must be a list"
    for each in subsets:
        pair = isinstance(each, (list, tuple)) and len(each) == 2  # noqa: PLR2004 - a task and a metric
        if not all(isinstance(part, str) for part in (each if pair else [each])):
            return f"a part of {name!r:.60} is {each!r:.60}; it must be a task, or a task and a metric"
    try:
        _weights(group, _parts(group), "")
    except DataError as exc:
        return exc.what
    return ""


def _written_groups(variables: Mapping[str, Any]) -> list[Any]:
    summarizer = variables.get("summarizer")
    listed = summarizer.get("summary_groups") if isinstance(summarizer, Mapping) else None
    if not isinstance(listed, (list, tuple)):
        named = [value for name, value in variables.items() if name.endswith("summary_groups")]
        listed = [group for value in named if isinstance(value, (list, tuple)) for group in value]
    return list(listed)


@dataclass(frozen=True, slots=True)
class _GroupFigures:
    """The figures of a task or group, each as a part of the averages above it, and their results."""

    figures: Mapping[str, AveragedPart]
    results: tuple[TaskResult, ...]

    @property
    def is_lost(self) -> bool:
        """Whether no average contains it."""
        return AveragedPart("", None, self.results).is_lost

    def has(self, metric: str) -> bool:
        """Whether there is a figure of this metric; of any, if it has no name."""
        return metric in self.figures if metric else bool(self.figures)


def group_rows(groups: Sequence[Mapping[str, Any]], results: Sequence[TaskResult], where: str) -> Iterator[ResultRow]:
    """Yield the figures of each group whose parts all ran; a part may be a group before it.

    A group has every figure that all of its parts have. Where their first figures differ, or the group asks for another
    kind of summary, that of the first figures has the name of its kind: ``naive_average``, ``weighted_average``, ….
    Parts of which more than half of the samples failed are left out of all but sums.
    """
    known = {result.task.name: _of_task(result) for result in results}
    for group in groups:
        name, subsets = str(group["name"]), _parts(group)
        if not subsets or any(part not in known for part, _ in subsets):
            continue
        lost = {part for part, _ in subsets if known[part].is_lost and not group.get("sum")}
        held = [(part, metric) for part, metric in subsets if part not in lost]
        scored = [part for part, metric in subsets if known[part].has(metric)]
        if any(part not in scored for part, _ in held) or (lost and len(scored) == 1):
            continue
        rows = {str(row["metric"]): row for row in _rows(group, held, lost, known, where)}
        yield from rows.values()
        parts = tuple(result for part, _ in held or subsets for result in known[part].results)
        figures = {metric: AveragedPart(name, row["value"], parts, row=row) for metric, row in rows.items()}
        known[name] = _GroupFigures(figures, parts)


def _rows(
    group: Mapping[str, Any],
    held: Sequence[tuple[str, str]],
    lost: Collection[str],
    known: Mapping[str, _GroupFigures],
    where: str,
) -> Iterator[ResultRow]:
    """Yield the figures of a group over these parts of it, without the ``lost`` ones."""
    subsets = _parts(group)
    weights = dict(zip(subsets, _weights(group, subsets, where), strict=True))
    left = [AveragedPart(part, None, known[part].results) for part, _ in subsets if part in lost]
    for metric, chosen in _summaries(group, held, known) if held else ():
        parts = [
            replace(known[part].figures[own], name=part, weight=weights[part, named])
            for (part, named), own in zip(held, chosen, strict=True)
        ]
        row = _row(group, metric, [*parts, *left])
        if row is not None:
            yield row


def _row(group: Mapping[str, Any], metric: str, parts: Sequence[AveragedPart]) -> ResultRow | None:
    """Return the row of a group; the average of tasks has an interval, and other summaries have none."""
    held = [part for part in parts if part.value is not None]
    counted = [result for part in held for result in part.results]
    measures = [{measure.name: measure for measure in result.measures()} for result in counted]
    kind = _kind(group)
    plain = not kind and len({id(each) for each in counted}) == len(counted) == len(held)
    measure = measures[0].get(metric) if plain and all(part.values for part in held) else None
    labels = {
        "task": str(group["name"]),
        "dataset": str(group["name"]),
        "average": "group",
        "metric": metric,
        "higher_is_better": all(each[metric].higher_is_better for each in measures if metric in each),
    }
    return average_row(labels, parts, measure=measure, summarize=partial(_summed, kind), keeps_lost=kind == "sum")


def _parts(group: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [_part(each) for each in group["subsets"]]


def _part(text: Any) -> tuple[str, str]:
    """Return the task of a part, and its metric where it names one."""
    if isinstance(text, (list, tuple)) and len(text) == 2:  # noqa: PLR2004 - a task and a metric
        return str(text[0]), str(text[1])
    return str(text), ""


def _of_task(result: TaskResult) -> _GroupFigures:
    parts = {measure.name: part_of(result, measure) for measure in result.measures()}
    return _GroupFigures({name: part for name, part in parts.items() if part.value is not None}, (result,))


def _kind(group: Mapping[str, Any]) -> str:
    """Return the name of a group's kind of summary; "" for an average."""
    return next((title for option, title in _KINDS.items() if group.get(option)), "")


def _summaries(
    group: Mapping[str, Any], subsets: Sequence[tuple[str, str]], known: Mapping[str, _GroupFigures]
) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the name of each figure of a group, with the metrics of its parts that go into it."""
    kind = _kind(group)
    own = str(group.get("metric") or kind or ("weighted_average" if group.get("weights") else "naive_average"))
    firsts = [metric or next(iter(known[part].figures), "") for part, metric in subsets]
    shared = [name for name in known[subsets[0][0]].figures if all(name in known[part].figures for part, _ in subsets)]
    named = any(metric for _, metric in subsets)
    special = (own not in shared and (len(set(firsts)) > 1 or firsts[0] not in shared)) or kind or group.get("weights")
    if not named:
        yield from ((name, [name] * len(subsets)) for name in shared if not (special and name == own))
    if special:
        yield own, firsts


def _summed(kind: str, parts: Sequence[AveragedPart]) -> float:
    values = [part.value or 0.0 for part in parts]
    mean = math.fsum(values) / len(values)
    if kind == "standard_deviation":
        return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    if kind == "sum":
        return math.fsum(values)
    if kind == "harmonic_mean":
        floor = 0.0 if all(value > 0 for value in values) else 1.0  # as OpenCompass does where a value is 0
        return len(values) / math.fsum(1 / max(value, floor) for value in values)
    return weighted_mean(parts)


def _weights(group: Mapping[str, Any], subsets: Sequence[tuple[str, str]], where: str) -> list[float]:
    given = group.get("weights") or {}
    if not given:
        return [1.0] * len(subsets)
    if not isinstance(given, Mapping):
        raise DataError(f"the weights of the group {group['name']!r} are {given!r:.60}, not a dict", where=where)
    names = [(f"{part}@{metric}" if f"{part}@{metric}" in given else part) for part, metric in subsets]
    weights = [given.get(name, 0) for name in names]
    if not all(isinstance(each, (int, float)) for each in weights) or not 0 < sum(weights) < math.inf:
        raise DataError(f"the weights of the group {group['name']!r} cannot be used: {given!r:.120}", where=where)
    return [float(each) for each in weights]
