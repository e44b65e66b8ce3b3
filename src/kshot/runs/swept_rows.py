"""The figures of sweeps, read back: what was measured, the values along an axis, and a line for each other choice.

Two points are compared if they differ by one option alone: neighbours along an axis of numbers, and every two of other
values. Where subsets have an average, that is compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median
from typing import Any, TypeAlias

from kshot.core.failed_parts import all_parts, many_failed, most_failed
from kshot.core.records import ResultRow
from kshot.core.task import TaskResult
from kshot.core.visible import metric_label
from kshot.runs.headline import headlines
from kshot.statistics.figures import named_rule, rule_of_rows, same_units
from kshot.statistics.paired import Pair, averaged, has_figures

SWEEP, BASE, SAME = "sweep", "swept", "same_prompts"
"""The labels of a figure of a sweep: the values of its point by option; the name of its task without them; and, if an
earlier point has the same prompts, the name of the task there. A figure with that last label is not drawn or tested."""

SHOWN, SHOWN_RANGE = "shots_shown", "shots_range"
"""How many examples the prompts of a figure show: the median, and the least and the most if prompts differ."""

SHOTS = ("num_shots", "shots", "num_fewshot")
"""The options that say how many examples a prompt shows: of classes and tables, of token lookup, of task files."""
NUMERIC = (*SHOTS, "temperature")
"""The options whose values are numbers, in the order in which one becomes the axis of a curve."""


@dataclass(frozen=True, slots=True)
class SweptLine:
    """One line of a sweep: what is told apart by it, and its figure at each value of the axis; None where none is."""

    parts: tuple[tuple[str, Any], ...]
    """The model (``model``), the lookup task (``lookup``) and the values of the other options, where they differ."""
    rows: tuple[ResultRow | None, ...]

    @property
    def name(self) -> str:
        """What the line is called; "" if it is the only one."""
        return " · ".join(shown_value(name, value) for name, value in self.parts)


@dataclass(frozen=True, slots=True)
class SweptFigures:
    """The figures of one dataset by one metric over a sweep."""

    of: str
    metric: str
    across: str
    """The option along the axis."""
    steps: tuple[Any, ...]
    """The values along the axis; for examples, the number shown."""
    labels: tuple[str, ...]
    """The values in words."""
    lines: tuple[SweptLine, ...]

    @property
    def found(self) -> list[ResultRow]:
        """All rows, those of several lines once."""
        return list({id(row): row for line in self.lines for row in line.rows if row is not None}.values())

    @property
    def is_curve(self) -> bool:
        """Whether the values along the axis are numbers: figures then belong on a line, and not side by side."""
        return self.across in NUMERIC

    @property
    def label(self) -> str:
        """The metric with its rule."""
        return metric_label(*self.found)

    @property
    def title(self) -> str:
        """What is shown, for a heading."""
        upwards = self.found[0].get("higher_is_better") is not False
        by = AXES.get(self.across, self.across)
        return f"{self.of} · {self.label} by {by}{'' if upwards else ' (lower is better)'}"


AXES = {
    **dict.fromkeys(SHOTS, "number of examples"),
    "temperature": "temperature",
    "ranking_type": "ranking type",
    "retriever": "retriever",
    "instruction": "instruction",
}
"""What the options of sweeps are called in titles."""


SWEPT_NAMES = tuple(AXES)
MAX_LINES = 7
"""Lines that can be told apart in a picture."""
_TEXT_ROOM = 36
_CROWDED, _BESIDE = 4, ("lookup", "retriever")
_APART = ("model", "instruction", "ranking_type", "temperature", *_BESIDE)
"""By what the lines of a crowded picture are divided among several, the first first; what is to be compared, last."""


def shown_examples(facts: Mapping[str, Any], positions: Iterable[int]) -> Counter[int] | None:
    """Count the samples by the number of examples that their prompts show; None if the run did not record it."""
    shots = facts.get("shots", facts.get("num_fewshot"))
    if type(shots) is not int:
        return None
    fewer = fewer_examples(facts)
    return Counter(fewer.get(str(position), shots) for position in positions)


def fewer_examples(facts: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the number of examples of each sample that has fewer than others, by its position."""
    return {**facts.get("chosen", {}), **facts.get("kept", {})}


def shown_columns(results: Iterable[TaskResult]) -> ResultRow:
    """Return the columns with the number of examples that prompts of tasks show; none if it is not known for all."""
    whole: Counter[int] = Counter()
    for result in results:
        shown = shown_examples(result.task.facts, result.positions)
        if shown is None:
            return {}
        whole += shown
    return {} if not whole else columns_of(whole)


def columns_of(shown: Counter[int]) -> ResultRow:
    """Return the median number of examples, and its range if it varies, as columns; ``shown`` counts samples by it."""
    middle = median(shown.elements())
    least, most = min(shown), max(shown)
    ranged = {} if least == most else {SHOWN_RANGE: [least, most]}
    return {SHOWN: int(middle) if middle == int(middle) else middle, **ranged}


def shown_label(rows: Iterable[ResultRow], *, asked: Any = None) -> str:
    """Return the number of examples of figures in words: ``16``, ``16 (12–20)`` where prompts differ.

    ``asked``: the number that was asked for, to be added.
    """
    numbers = [(row[SHOWN], *(row.get(SHOWN_RANGE) or (row[SHOWN], row[SHOWN]))) for row in rows]
    middle, least, most = median(number[0] for number in numbers), *_ends(numbers)
    more = [f"{least:g}–{most:g}"] if least != most else []
    more += [f"of {asked}"] if asked is not None else []
    return f"{middle:g}" + (f" ({', '.join(more)})" if more else "")


def _ends(numbers: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    return min(number[1] for number in numbers), max(number[2] for number in numbers)


def task_label(*rows: ResultRow) -> str:
    """Return the name of a task for a table, with the number of examples shown if another number was asked for."""
    task, counted = str(rows[0]["task"]), [row for row in rows if is_swept(row) and SHOWN in row]
    asked = {row[SWEEP][name] for row in counted for name in SHOTS if name in row[SWEEP]}
    shown = {each for row in counted for each in (row[SHOWN], *row.get(SHOWN_RANGE, ()))}
    return task if not asked or shown <= asked else f"{task} [{shown_label(counted)} shown]"


def is_swept(row: ResultRow) -> bool:
    """Whether a figure is one of a sweep."""
    return isinstance(row.get(SWEEP), Mapping) and bool(row[SWEEP])


def swept_figures(rows: Sequence[ResultRow], *, every_metric: bool = False) -> list[SweptFigures]:
    """Return the sweeps among the figures of a run: by default those of the headline of each task.

    Categories, details and gaps are left out; averages stand for their subsets, and spreads for their draws.
    """
    whole = [row for row in rows if is_swept(row) and not {"category", "gap", SAME} & row.keys()]
    main = [row for row in whole if not row.get("detail")] or whole  # the user may have asked for a detail alone
    if not every_metric:
        main = headlines(main, lambda row: (row["task"], row.get("model")))
    averaged = {(row["model"], name) for row in main for name in all_parts(row)}
    spread = any("sd" in row for row in main)
    groups: dict[tuple[str, str], list[ResultRow]] = {}
    for row in main:
        part = (row["model"], row["task"]) in averaged or (spread and "example_seed" in row)
        if not part:
            groups.setdefault((_of(row), row["metric"]), []).append(row)
    return [found for (of, metric), own in groups.items() for found in _divided(of, metric, own, _APART)]


def _divided(of: str, metric: str, rows: Sequence[ResultRow], apart: Sequence[str]) -> Iterator[SweptFigures]:
    """Yield the figures as one picture, or, where it would have too many lines, as one for each model, and so on."""
    found = _figures(of, metric, rows)
    if found is None:
        return
    count = len(found.lines)
    crowded = [name for name in apart if count > (MAX_LINES if name in _BESIDE else _CROWDED)]
    by = next((name for name in crowded if _several(name, rows, found.across)), None)
    if by is None:
        yield found
        return
    rest = [name for name in apart if name != by]
    for value in dict.fromkeys(_told(by, row) for row in rows if by not in SWEPT_NAMES or by in row[SWEEP]):
        own = [row for row in rows if _told(by, row) == value or (by in SWEPT_NAMES and by not in row[SWEEP])]
        yield from _divided(f"{of} · {shown_value(by, value)}", metric, own, rest)


def _several(name: str, rows: Sequence[ResultRow], across: str) -> bool:
    """Whether rows differ by a model, a lookup task or an option, which is not that of the axis."""
    having = [row for row in rows if name not in SWEPT_NAMES or name in row[SWEEP]]
    return name != across and len({_told(name, row) for row in having}) > 1


def _told(name: str, row: ResultRow) -> Any:
    return _hashable(row[SWEEP].get(name) if name in SWEPT_NAMES else row.get(name))


def _of(row: ResultRow) -> str:
    """Return what a curve is of; the tasks of token lookup at one length are lines of one picture."""
    if row.get("kind") == "lookup":
        return f"lookup, length {row['length']}, {row['variant']}"
    return str(row[BASE])


def _figures(of: str, metric: str, rows: Sequence[ResultRow]) -> SweptFigures | None:
    names = list(dict.fromkeys(name for row in rows for name in row[SWEEP]))
    across = next((name for name in NUMERIC if name in names), names[0])
    others = [name for name in names if name != across and _several(name, rows, across)]
    fixed = [name for name in ("model", "lookup") if len({row.get(name) for row in rows}) > 1]
    values = {
        name: list(dict.fromkeys(_hashable(row[SWEEP][name]) for row in rows if name in row[SWEEP])) for name in others
    }
    axis = _Axis(across, [(_parts(row, fixed, others), row) for row in rows if across in row[SWEEP]])
    if not axis.keys:
        return None
    lines: dict[tuple[tuple[str, Any], ...], list[ResultRow | None]] = {}
    whole = [row for row in rows if all(name in row[SWEEP] for name in others)] or list(rows)
    for row in sorted(whole, key=lambda row: [_place(row, name, values) for name in others]):
        lines.setdefault(_parts(row, fixed, others), [None] * len(axis.keys))
    for row in rows:
        own = dict(_parts(row, fixed, others))
        for parts, cells in lines.items():
            if all(dict(parts).get(name) == value for name, value in own.items()):
                for at in [axis.place(row)] if across in row[SWEEP] else range(len(axis.keys)):
                    cells[at] = row
    drawn = tuple(SweptLine(parts, tuple(cells)) for parts, cells in lines.items())
    return SweptFigures(of, metric, across, tuple(key[0] for key in axis.keys), tuple(axis.labels()), drawn)


class _Axis:
    """The places along an axis: one for each value; for examples, one for each number that prompts show.

    If two points of a line show the same number, but other examples, each has a place of its own.
    """

    def __init__(self, across: str, placed: Sequence[tuple[Hashable, ResultRow]]) -> None:
        self._across, self._rows = across, [row for _, row in placed]
        asked: dict[tuple[Hashable, Any], set[Any]] = {}
        for line, row in placed:
            asked.setdefault((line, self._value(row)), set()).add(self._asked(row))
        self._shared = {value for (_, value), numbers in asked.items() if len(numbers) > 1}
        self.keys = _steps(map(self._key, self._rows))

    def place(self, row: ResultRow) -> int:
        """Return the place of a figure."""
        return self.keys.index(self._key(row))

    def labels(self) -> Iterator[str]:
        """Yield the name of each place."""
        for key in self.keys:
            own = [row for row in self._rows if self._key(row) == key and _counts_shots(self._across, row)]
            asked = key[1] if len(key) > 1 else None
            yield shown_label(own, asked=asked) if own else shown_value(self._across, key[0])

    def _key(self, row: ResultRow) -> tuple[Any, ...]:
        value = self._value(row)
        return (value, self._asked(row)) if value in self._shared else (value,)

    def _value(self, row: ResultRow) -> Any:
        return row[SHOWN] if _counts_shots(self._across, row) else self._asked(row)

    def _asked(self, row: ResultRow) -> Any:
        return _hashable(row[SWEEP][self._across])


def _counts_shots(option: str, row: ResultRow) -> bool:
    """Whether the option is a number of examples, and the figure says how many its prompts show."""
    return option in SHOTS and isinstance(row.get(SHOWN), (int, float))


def _place(row: ResultRow, name: str, values: Mapping[str, list[Any]]) -> int:
    return values[name].index(_hashable(row[SWEEP][name])) if name in row[SWEEP] else 0


def _parts(row: ResultRow, fixed: Sequence[str], others: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    """Return what tells the line of a figure from the others; one that an option does not change is on several."""
    told = [(name, row.get(name)) for name in fixed]
    return (*told, *((name, _hashable(row[SWEEP][name])) for name in others if name in row[SWEEP]))


def _steps(keys: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the places along the axis: numbers in their order, others as they were given."""
    places = list(dict.fromkeys(keys))
    numbers = all(isinstance(value, (int, float)) for key in places for value in key)
    return sorted(places) if numbers else places


def _hashable(value: Any) -> Any:
    """Return a value of a file, which may be anything, so that it can be compared and looked up."""
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def shown_value(name: str, value: Any) -> str:
    """Return a value for a heading: None is the dataset's own, and of a long text there is the beginning."""
    if value is None:
        return f"the usual {AXES.get(name, name)}"
    if name == "instruction":
        text = " ".join(str(value).split())
        return f"“{text if len(text) <= _TEXT_ROOM else text[: _TEXT_ROOM - 1] + '…'}”"
    return f"{value:g}" if isinstance(value, float) else str(value)


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
    if not swept:
        return
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
                shared = {"metric": metric, **rule_of_rows(one, other)}
                shared |= {name: one[name] for name in ("higher_is_better", "average") if name in one}
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
