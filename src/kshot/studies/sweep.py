"""Sweeps: a source evaluated once for each value of an option, such as each number of examples, and all combinations.

A value that changes nothing at some point, such as the retriever where there are no examples, is left out there, so
that no point is evaluated twice. The answers of a run are kept by request: what several points ask alike is asked once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple, TypeAlias

from kshot.core.errors import UsageError, naming
from kshot.core.failed_parts import all_parts, with_parts_named
from kshot.core.options import SweptValues, flag, options_from
from kshot.core.protocols import Model, Source
from kshot.core.records import ResultRow
from kshot.core.specs import option_text, parse_spec, split_options, split_values
from kshot.core.task import Task, TaskResult
from kshot.core.watcher import PlannedTask
from kshot.runs.swept_rows import BASE, SAME, SHOTS, SWEEP, shown_columns
from kshot.settings import Settings
from kshot.studies.example_draws import same_prompts
from kshot.studies.wrapped import WrappedSource

_Values: TypeAlias = Mapping[str, Any]
_Key: TypeAlias = tuple[tuple[str, Any], ...]


class SweepPlace(NamedTuple):
    """One point of a sweep before it is known what it reads: the settings there, and the values that set them.

    ``stands_for``: by the option that a front end reads, the one that the user names.
    """

    settings: Settings
    values: _Values
    stands_for: Mapping[str, str] = {}


class SweepPoint(NamedTuple):
    """One point of a sweep: the source and the settings there, the values that matter, and the end of its names."""

    source: Source[Settings]
    settings: Settings
    values: _Values
    suffix: str


@dataclass(frozen=True, slots=True)
class Sweep(WrappedSource):
    """Evaluates a source at every point of a sweep; the names of its tasks end in the values.

    ``whole`` is the source at the first point: what it says of models and judges holds for all points. ``own`` are the
    options with several values that follow the name of the dataset; they go before those of the run. ``placed`` returns
    the settings at one point, ``made`` the source for them.
    """

    own: SweptValues
    placed: Callable[[Settings, _Values], SweepPlace]
    made: Callable[[Settings], Source[Settings]]
    _sources: dict[_Key, tuple[Source[Settings], set[str]]] = field(default_factory=dict, compare=False, repr=False)
    """The sources by the values that made them, and the options that they have read."""
    _read: dict[_Key, _Values] = field(default_factory=dict, compare=False, repr=False)
    """By values: those that matter among them."""
    _points: dict[_Key, SweepPoint] = field(default_factory=dict, compare=False, repr=False)
    """The points by the values that matter."""

    def of_whole(self, settings: Settings) -> Settings:
        """Return the settings at the first point."""
        return next(self._places(settings)).settings

    def packages(self, settings: Settings, *, scored: bool = True) -> Mapping[str, Sequence[str]]:
        """Return the packages that any point needs."""
        found = [self._source(each).packages(each.settings, scored=scored) for each in self._places(settings)]
        return {purpose: names for each in found for purpose, names in each.items()}

    def check(self, settings: Settings) -> None:
        """Refuse settings that cannot mean anything at some point."""
        for place in self._places(settings):
            self._source(place).check(place.settings)

    def close(self) -> None:
        """End what runs beside kshot for any point."""
        for source in (self.whole, *(made for made, _ in self._sources.values())):
            source.close()

    def tasks(
        self, settings: Settings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """Compile the source at every point; the names of tasks end as if the values followed the dataset's name.

        A task is marked if its prompts are those of an earlier point, because there were no more examples, or no room
        for more: their answers are there already.
        """
        compiled: list[Task[Any]] = []
        for point in self.points(settings):
            suffix = point.suffix
            own = {name.removesuffix(suffix): each for name, each in (facts or {}).items() if name.endswith(suffix)}
            for task in point.source.tasks(point.settings, model, own):
                compiled.append(_marked(named_at(point, task), compiled))
                yield compiled[-1]

    def previews(self, settings: Settings) -> Iterator[Task[Any]]:
        """Compile the source at every point for its prompts."""
        for point in self.points(settings):
            yield from (named_at(point, task) for task in point.source.previews(point.settings))

    def rehearsals(self, settings: Settings) -> Iterator[Task[Any]]:
        """Compile what every point would try out: each may ask for something else."""
        for point in self.points(settings):
            yield from (named_at(point, task) for task in point.source.rehearsals(point.settings))

    def planned(self, settings: Settings, rehearsed: Sequence[PlannedTask]) -> Sequence[PlannedTask] | None:
        """Return the tasks of all points."""
        left, found = list(rehearsed), []
        for point in sorted(self.points(settings), key=lambda point: -len(point.suffix)):  # one may end as another
            own = [task for task in left if task.task.endswith(point.suffix)]
            left = [task for task in left if not task.task.endswith(point.suffix)]
            bare = [replace(each, task=each.task.removesuffix(point.suffix)) for each in own]
            planned = point.source.planned(point.settings, bare)
            if planned is None:
                return None
            found.append((point, [_planned_at(point, task) for task in planned]))
        order = {point.suffix: at for at, point in enumerate(self.points(settings))}
        return [task for point, tasks in sorted(found, key=lambda each: order[each[0].suffix]) for task in tasks]

    def totals(self, results: Sequence[TaskResult]) -> Iterator[ResultRow]:
        """Return the figures over several tasks of each point; the source knows its tasks by their own names."""
        groups: dict[_Key, list[TaskResult]] = {}
        for result in results:
            groups.setdefault(_key(result.task.labels.get(SWEEP, {})), []).append(result)
        for key, found in groups.items():
            point = self._points[key]
            own = [
                replace(each, task=replace(each.task, name=each.task.labels.get(BASE, each.task.name)))
                for each in found
            ]
            yield from (row_at(point, row, own) for row in point.source.totals(own))

    def points(self, settings: Settings) -> list[SweepPoint]:
        """Return the points that differ, in the order of the values; the last option changes fastest."""
        swept, declared = self._swept(settings), settings.declared()
        self._points.clear()
        for place in self._places(settings):
            chosen = self._values_read(place)
            settings.mark_read(*chosen.keys() - dict(self.own).keys())
            texts = [name for name in chosen if declared[name].whole_text]  # a name has their numbers, from 1
            numbers = {name: swept[name].index(chosen[name]) + 1 for name in texts}
            suffix = option_text({name: value_text(value) for name, value in {**chosen, **numbers}.items()})
            self._points.setdefault(_key(chosen), SweepPoint(self._source(place), place.settings, chosen, suffix))
        return list(self._points.values())

    def _swept(self, settings: Settings) -> dict[str, Sequence[Any]]:
        """Return the options with several values; those after the name go before those of the run."""
        return {**dict(settings.sweep), **dict(self.own)}

    def _places(self, settings: Settings) -> Iterator[SweepPlace]:
        """Yield all combinations of values, whether they differ in what is read or not."""
        swept = self._swept(settings)
        for values in product(*swept.values()):
            yield self.placed(settings, dict(zip(swept, values, strict=True)))

    def _source(self, place: SweepPlace) -> Source[Settings]:
        """Return the source for the values of a place."""
        key = _key(place.values)
        if key not in self._sources:
            reads: set[str] = set()
            self._sources[key] = self.made(place.settings.noting(reads)), reads
        return self._sources[key][0]

    def _values_read(self, place: SweepPlace) -> _Values:
        """Return the values that matter at a place: those that are read when its tasks are compiled."""
        key = _key(place.values)
        if key not in self._read:
            same = [read for read in self._read.values() if read.items() <= place.values.items()]
            self._read[key] = same[0] if same else self._compiled_values(place)
        return self._read[key]

    def _compiled_values(self, place: SweepPlace) -> _Values:
        source = self._source(place)
        reads = self._sources[_key(place.values)][1]
        for _ in source.rehearsals(place.settings.noting(reads)):
            pass  # the source keeps them
        read = reads.union(name for own, name in place.stands_for.items() if own in reads)
        return {name: value for name, value in place.values.items() if name in read}


def value_text(value: Any) -> str:
    """Return a value as it stands in a name: whole numbers without a point, and None as the default that it is."""
    if value is None:
        return "default"
    return f"{value:g}" if isinstance(value, float) else str(value)


def named_at(point: SweepPoint, task: Task[Any]) -> Task[Any]:
    """Return the task of a point, with its values in its name, and as labels of its figures."""
    if not point.values:
        return task
    ended = {name: f"{task.labels[name]}{point.suffix}" for name in ("dataset", "of") if name in task.labels}
    labels = {**task.labels, **ended, BASE: task.name, SWEEP: dict(point.values)}
    return replace(task, name=f"{task.name}{point.suffix}", labels=labels)


def _marked(task: Task[Any], earlier: Sequence[Task[Any]]) -> Task[Any]:
    """Mark a task whose prompts are those of an earlier point that differs by the number of examples alone."""
    other = next((each for each in earlier if _differ_by_shots(task, each) and same_prompts(each, task)), None)
    if other is None:
        return task
    name = other.labels.get(SAME, other.name)
    note = f"{task.name}: its prompts are those of {name}, so both are asked, drawn and tested once"
    return replace(task, labels={**task.labels, SAME: name}, notes=(*task.notes, note))


def _differ_by_shots(task: Task[Any], earlier: Task[Any]) -> bool:
    """Whether two tasks differ by the number of examples alone, and may have the same prompts.

    A point without examples has no retriever, so it stands for all of them.
    """
    if BASE not in task.labels or task.labels[BASE] != earlier.labels.get(BASE):
        return False
    if "kept" not in task.facts and task.facts.get("shots") != earlier.facts.get("shots"):
        return False  # no need to compare their prompts
    mine, others = (_others(each.labels[SWEEP]) for each in (task, earlier))
    return others.items() <= mine.items() and task.labels[SWEEP].keys() & {*SHOTS} != set()


def _others(values: _Values) -> _Values:
    return {name: value for name, value in values.items() if name not in SHOTS}


def row_at(point: SweepPoint, row: ResultRow, results: Sequence[TaskResult]) -> ResultRow:
    """Return a figure over several tasks of a point; its values stand behind the name of what it is over."""
    if not point.values:
        return row
    task, suffix = str(row["task"]), point.suffix
    labels = {BASE: task.replace(suffix, "", 1), SWEEP: dict(point.values), **shown_columns(_parts(row, results))}
    earlier = {_same_point(result.task) for result in _parts(row, results)}
    if suffix not in task:
        over = [row.get("dataset"), *(result.task.name for result in results)]
        head = max((str(name) for name in over if name and task.startswith(str(name))), key=len, default=task)
        task = f"{head}{suffix}{task[len(head) :]}"
    dataset = {"dataset": f"{row['dataset']}{suffix}"} if "dataset" in row else {}
    same = {SAME: task.replace(suffix, str(*earlier), 1)} if len(earlier) == 1 and earlier != {None} else {}
    return with_parts_named({**row, "task": task, **dataset, **labels, **same}, lambda name: f"{name}{suffix}")


def _parts(row: ResultRow, results: Sequence[TaskResult]) -> list[TaskResult]:
    """Return the results that a figure summarizes: subsets by their names, or draws of one task."""
    if "tasks" in row:
        return [result for result in results if result.task.name in all_parts(row)]
    task = str(row["task"])
    return [result for result in results if task.startswith(f"{result.task.labels.get('of', task)}")]


def _same_point(task: Task[Any]) -> str | None:
    """Return how names end at the earlier point with the same prompts; None if there is none."""
    earlier = task.labels.get(SAME)
    return None if earlier is None else str(earlier).removeprefix(str(task.labels[BASE]))


def _planned_at(point: SweepPoint, task: PlannedTask) -> PlannedTask:
    group = f"{task.group}{point.suffix}" if task.group and not task.group.endswith(point.suffix) else task.group
    return replace(task, task=f"{task.task}{point.suffix}", group=group)


def _key(values: _Values) -> _Key:
    return tuple(values.items())


_OWN_NUMBERS = {"lookup": "shots", "lmeval": "num_fewshot"}
"""The option of a front end that says how many examples there are, if not ``-k``."""

_SEVERAL = 2
_MAX_POINTS = 1000
"""Every point is a task of its own, with its rows, its table and its place in the report."""


def own_values(text: str) -> dict[str, list[str]]:
    """Return the options after the name of a dataset that have several values: ``quiz,num_shots=0+5``."""
    declared = Settings.declared()
    given = {
        name: _named(split_values(value)) if name == "retriever" else split_values(value)
        for name, value in split_options(text)[1].items()
        if name in declared and declared[name].sweeps and not declared[name].whole_text
    }
    return {name: values for name, values in given.items() if len(values) >= _SEVERAL and all(values)}


def _named(values: Sequence[str]) -> list[str]:
    """Return the retrievers among values: none begins with a digit, which belongs to a list of the one before it."""
    found = list(values[:1])
    for value in values[1:]:
        if value[:1].isdigit():
            found[-1] += f"+{value}"  # fixk,fix_id_list=0+2
        else:
            found.append(value)
    return found


def sweep_of(spec: Any, settings: Settings, source_of: Callable[[Any, Settings], Source[Settings]]) -> Sweep:
    """Return the sweep of what a user named as a dataset; ``source_of`` makes its source for settings without one."""
    own: SweptValues = ()
    base = spec
    if isinstance(spec, str):
        head, options = split_options(spec)
        several = own_values(spec)
        base = head + option_text({name: value for name, value in options.items() if name not in several})
        own = _read(several, spec)
    swept = {**dict(settings.sweep), **dict(own)}
    count = math.prod(map(len, swept.values()))
    if count > _MAX_POINTS:
        named = " × ".join(f"{len(values):,} of {flag(name)}" for name, values in swept.items())
        what = f"the sweep has {count:,} points ({named}), and one may have {_MAX_POINTS:,}"
        raise UsageError(what, where=f"{spec:.100}" if isinstance(spec, str) else "", hint="Give fewer values.")

    def placed(whole: Settings, values: Mapping[str, Any]) -> SweepPlace:
        return place_of(base, whole, values)

    first = placed(settings, {name: values[0] for name, values in swept.items()})
    whole = source_of(base, first.settings)
    return Sweep(spec if isinstance(spec, str) else whole.label, whole, own, placed, lambda at: source_of(base, at))


def _read(several: Mapping[str, Sequence[str]], where: str) -> SweptValues:
    """Read the values after a name as the options of the run are read."""
    declared = Settings.declared()
    given: dict[str, list[Any]] = {}
    for name, texts in several.items():
        kind = declared[name].kind
        try:
            given[name] = [kind(text) for text in texts]
        except ValueError:
            what = f"{name} is {'+'.join(texts)!r}; each value must be {kind.__name__}"
            raise UsageError(what, where=where) from None
    return options_from(Settings, given).sweep


def place_of(spec: Any, whole: Settings, values: Mapping[str, Any]) -> SweepPlace:
    """Return the settings at one point of a sweep, and the values that may matter there.

    None stands for the default. Without examples there is nothing to retrieve: 0 is one point for all retrievers.
    """
    at = whole.with_values(sweep=(), **{name: value for name, value in values.items() if value is not None})
    if "num_shots" not in values:
        return SweepPlace(at, values)
    named = parse_spec(spec) if isinstance(spec, str) else None
    if named is not None and named.name in _OWN_NUMBERS:
        own = _OWN_NUMBERS[named.name]
        if at.values()[own] is not None or own in named.options:  # which goes before -k
            return SweepPlace(at, {name: value for name, value in values.items() if name != "num_shots"})
        # 0 is 0, and not as many as it shows by itself
        return SweepPlace(at.with_values(**{own: at.num_shots}), values, {own: "num_shots"})
    if at.num_shots:
        return SweepPlace(at, values)
    of_config = named is not None and named.file is not None and not named.argument
    chooses_none = "zero" if of_config and at.retriever is not None else None  # else the config's own would choose
    at = at.with_values(retriever=chooses_none, retriever_seeds=None)
    return SweepPlace(at, {name: value for name, value in values.items() if name != "retriever"})


def check_sweeps(settings: Settings, sources: Sequence[Source[Settings]], reads: Collection[str]) -> None:
    """Refuse several values of an option that no dataset has read: all would have the same figures."""
    for name, values in settings.sweep:
        if name not in reads:
            shown = ", ".join(map(value_text, values))
            labels = ", ".join(source.label for source in sources)
            what = f"{flag(name)} has several values ({shown:.80}), and it has no effect on {labels:.200}"
            with naming("setting", name):
                raise UsageError(what, hint="Give one value, or leave it out.")
