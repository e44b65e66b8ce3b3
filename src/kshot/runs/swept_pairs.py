"""Which values of a sweep differ, sample by sample: neighbours along an axis of numbers, and every two of other values.

Two points are compared if they differ by one option alone. Where subsets have an average, that is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any, TypeAlias

from kshot.core.failed_parts import all_parts, many_failed, most_failed
from kshot.core.records import ResultRow
from kshot.core.task import TaskResult
from kshot.runs.swept_rows import BASE, NUMERIC, SAME, SHOWN, SHOWN_RANGE, SWEEP, shown_columns
from kshot.statistics.figures import named_rule
from kshot.statistics.paired import Pair, averaged, has_figures
from kshot.statistics.units import same_units

AVERAGES = ("macro", "weighted")
"""Averages whose values are those of their parts, by the same name and with known weights."""

PairOf: TypeAlias = Callable[[TaskResult, TaskResult, str], Pair]
_Point: TypeAlias = Mapping[str, Any]


def swept_pairs(
    results: Sequence[TaskResult], rows: Sequence[ResultRow], pair_of: PairOf
) -> Iterator[tuple[ResultRow, Pair]]:
    """Yield what two points of a sweep are compared by: who they are, and their values on the same samples.

    ``pair_of(one, other, metric)`` returns the values of two results.
    """
    swept = [result for result in results if result.task.labels.get(SWEEP)]
    averages = [row for row in rows if SWEEP in row and "tasks" in row and row["average"] in AVERAGES]
    parts = {(row["model"], name) for row in averages for name in all_parts(row)}
    alone = [
        result
        for result in swept
        if (result.model, result.task.name) not in parts and not {"example_seed", SAME} & result.task.labels.keys()
    ]
    yield from _of_tasks(alone, pair_of)
    yield from _of_averages([row for row in averages if SAME not in row], swept, pair_of)


def _of_tasks(results: Sequence[TaskResult], pair_of: PairOf) -> Iterator[tuple[ResultRow, Pair]]:
    groups: dict[tuple[str, str], list[TaskResult]] = {}
    for result in results:
        groups.setdefault((result.model, str(result.task.labels[BASE])), []).append(result)
    for (model, base), own in groups.items():
        for option, one, other in _neighbours([(result.task.labels[SWEEP], result) for result in own]):
            theirs = {measure.name: measure for measure in other.measures()}
            for measure in one.measures():
                if measure.detail or measure.name not in other.values:
                    continue
                pair = pair_of(one, other, measure.name)
                if not pair.a or not same_units(measure.aggregate.key, pair.a, pair.b) or not has_figures(pair):
                    continue
                points = one.task.labels[SWEEP], other.task.labels[SWEEP]
                names = one.task.name, other.task.name
                rule = named_rule(measure, theirs[measure.name])
                better = {"higher_is_better": measure.higher_is_better}
                shared = {"task": base, "metric": measure.name, **rule, **better}
                shown = _shown(shown_columns([one]), shown_columns([other]))
                yield shared | _sides(model, names, option, points) | shown | {"failed": unpaired(one, other)}, pair


def _of_averages(
    averages: Sequence[ResultRow], results: Sequence[TaskResult], pair_of: PairOf
) -> Iterator[tuple[ResultRow, Pair]]:
    by_name = {(result.model, result.task.name): result for result in results}
    groups: dict[tuple[str, str, str], list[ResultRow]] = {}
    for row in averages:
        groups.setdefault((row["model"], row[BASE], row["metric"]), []).append(row)
    for (model, base, metric), own in groups.items():
        for option, one, other in _neighbours([(row[SWEEP], row) for row in own]):
            kept, parts = shared_parts(one, other, by_name, lambda result: str(result.task.labels[BASE]))
            pair = averaged([pair_of(a, b, metric) for a, b in kept], weighted=one["average"] == "weighted")
            if pair is not None:
                names, points = (one["task"], other["task"]), (one[SWEEP], other[SWEEP])
                shared = {name: one[name] for name in ("metric", "rule", "higher_is_better", "average") if name in one}
                yield {"task": base} | shared | _sides(model, names, option, points) | _shown(one, other) | parts, pair


def shared_parts(
    one: ResultRow,
    other: ResultRow,
    results: Mapping[tuple[str, str], TaskResult],
    name: Callable[[TaskResult], str],
) -> tuple[list[tuple[TaskResult, TaskResult]], ResultRow]:
    """Return the pairs of parts to compare two averages by, and the columns on parts with many failed samples.

    There are no pairs if the averages have different parts. Parts with the same ``name`` are a pair.
    """
    ones, others = (
        {name(each): each for each in (results[row["model"], p] for p in all_parts(row))} for row in (one, other)
    )
    if ones.keys() != others.keys():
        return [], {}
    lost = {*(one.get("left_out") or ()), *(other.get("left_out") or ())}
    kept: list[tuple[TaskResult, TaskResult]] = []
    parts: dict[str, list[str]] = {}
    for key, a in ones.items():
        b = others[key]
        sizes = len({*a.positions} & {*b.positions}), unpaired(a, b)
        if {a.task.name, b.task.name} & lost or most_failed(*sizes):
            parts.setdefault("left_out", []).append(a.task.name)
            continue
        kept.append((a, b))
        if many_failed(*sizes):
            parts.setdefault("partly_failed", []).append(a.task.name)
    return kept, {"failed": sum(unpaired(a, b) for a, b in kept), **parts}


def unpaired(one: TaskResult, other: TaskResult) -> int:
    """Return how many samples of a task failed in either of two results."""
    whole = max(len(each.positions) + each.failed for each in (one, other))
    return whole - len({*one.positions} & {*other.positions})


def _sides(model: str, names: tuple[str, str], option: str, points: tuple[_Point, _Point]) -> ResultRow:
    """Return who is compared: the tasks of two points, the option by which they differ, and the others' values."""
    return {
        "a": names[0],
        "b": names[1],
        "a_model": model,
        "b_model": model,
        SWEEP: option,
        "a_value": points[0].get(option),
        "b_value": points[1].get(option),
        "at": {name: value for name, value in points[0].items() if name != option},
    }


def _shown(one: ResultRow, other: ResultRow) -> ResultRow:
    """Return how many examples the prompts of both points show, as far as it is known."""
    sides = (("a", one), ("b", other))
    return {f"{side}_{name}": row[name] for side, row in sides for name in (SHOWN, SHOWN_RANGE) if name in row}


def _neighbours(found: Sequence[tuple[_Point, Any]]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the pairs that differ by one option: along numbers each value and the next one.

    A point at which another option changes nothing, as no examples for the retriever, is a neighbour of all its values.
    """
    options = list(dict.fromkeys(name for point, _ in found for name in point))
    for option in options:
        lines = _lines(option, found)
        for line in lines:
            if option in NUMERIC:
                ordered = sorted(line, key=lambda each: each[0][option])
                yield from ((option, one[1], other[1]) for one, other in pairwise(ordered))
            else:
                yield from ((option, one[1], other[1]) for one, other in combinations(line, 2))


def _lines(option: str, found: Sequence[tuple[_Point, Any]]) -> list[list[tuple[_Point, Any]]]:
    """Return the points that differ by an option alone, for each choice of the others."""
    having = [(point, each) for point, each in found if option in point]
    keys = [{name: value for name, value in point.items() if name != option} for point, _ in having]
    longest = max((len(key) for key in keys), default=0)
    whole = [key for at, key in enumerate(keys) if len(key) == longest and key not in keys[:at]]
    return [
        [(point, each) for (point, each), key in zip(having, keys, strict=True) if key.items() <= line.items()]
        for line in whole
    ]
