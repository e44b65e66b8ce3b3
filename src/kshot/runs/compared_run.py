"""A finished run as comparisons use it: its models, the figures that can be compared, and its compact scores.

The samples must be those of the figures: what ``samples.jsonl`` has is what ``summary.json`` says.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kshot.core.errors import RunError, UsageError
from kshot.core.failed_parts import all_parts
from kshot.core.records import ResultRow
from kshot.runs.headline import TaskOnModel, finite, task_rows
from kshot.runs.record import RunRecord, read_record
from kshot.runs.run_state import older_figures
from kshot.runs.samples_file import PlacedRow, damaged_line, made_earlier, placed_rows, rows_at
from kshot.runs.spec_file import read_spec
from kshot.statistics.figures import ROUNDING
from kshot.statistics.resampling import Reduce, mean, sequence_of

WRITES_BOTH = "kshot score writes both files again from the journal."


def checked_samples(record: RunRecord) -> Iterator[ResultRow]:
    """Yield the samples, as they are read. After the last one it is an error if they are not those of the figures.

    Every task of every model must have as many samples, answered and failed, as its figures say, and a figure that is
    the mean of its scores must be their mean.
    """
    where = "" if record.path is None else str(record.path)
    figures: dict[TaskOnModel, list[ResultRow]] = {}
    for row in task_rows(record.results):
        figures.setdefault((row["task"], row["model"]), []).append(row)
    totals = {key: _Totals(rows) for key, rows in figures.items()}
    for row in record.iter_samples():
        key = row.get("task"), row.get("model")
        own = totals.get(key) if isinstance(key[0], str) and isinstance(key[1], str) else None  # type: ignore[arg-type]  # both are texts
        if own is None:
            what = f"summary.json has no figure of {key[0]!r:.80} on {key[1]!r:.80}, of which samples.jsonl has samples"
            raise RunError(what, where=where, hint=WRITES_BOTH)
        own.add(row)
        yield row
    for own in totals.values():
        own.check(where)


def by_task(rows: Iterable[ResultRow]) -> Iterator[tuple[TaskOnModel, Iterator[ResultRow]]]:
    """Yield the samples of each task on each model, as they follow one another."""
    return groupby(rows, key=lambda row: (row["task"], row["model"]))


def checked_by_task(record: RunRecord) -> Iterator[tuple[TaskOnModel, Iterator[ResultRow]]]:
    """Yield checked samples by task. There must be some, and those of a task must follow one another."""
    where = "" if record.path is None else str(record.path)
    done = set()
    for key, rows in by_task(checked_samples(record)):
        if key in done:
            hint = "kshot score writes the file again from the journal."
            raise RunError("samples.jsonl is not in the order of tasks", where=where, hint=hint)
        done.add(key)
        yield key, rows
    if not done:
        raise RunError("the run has no samples", where=where)


def check_figure(row: ResultRow, n: int, failed: int, value: float | None, where: str) -> None:
    """Refuse a row of ``summary.json`` whose counts or value are not these, which samples have."""
    told = row.get("value")
    same = value is None if told is None else value is not None and _is_same(told, value)
    if not same or (n, failed) != (row.get("n"), row.get("failed")):
        what = f"samples.jsonl and summary.json disagree about {row['metric']} of {row['task']} on {row['model']}"
        raise RunError(what, where=where, hint=WRITES_BOTH)


def _is_same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)


class _Totals:
    """What the samples of one task on one model amount to."""

    def __init__(self, figures: list[ResultRow]) -> None:
        self._figures = figures
        means = [row for row in figures if row.get("aggregate") is None and not row.get("detail")]
        self._means = {row["metric"]: 0.0 for row in means if finite(row["value"]) is not None}
        self._answered = self._failed = 0

    def add(self, row: ResultRow) -> None:
        """Add a sample."""
        if "question" not in row:
            self._means = {}  # an earlier version, which did not record which figures are means
        if "failed" in row:
            self._failed += 1
            return
        self._answered += 1
        scores: Any = row.get("scores")
        known: Mapping[str, Any] = scores if isinstance(scores, dict) else {}
        for metric, before in self._means.items():
            score = finite(known.get(metric))
            self._means[metric] = math.nan if score is None else before + (score - before) / self._answered

    def check(self, where: str) -> None:
        """Compare the totals with the figures."""
        for row in self._figures:
            mean = self._means.get(row["metric"]) if self._answered else None
            value = row.get("value") if mean is None else mean
            check_figure(row, self._answered, self._failed, value, where)


Figures: TypeAlias = Mapping[TaskOnModel, Mapping[str, ResultRow]]
"""The figures whose scores are read, by task and model, then by name."""

_FAILED = math.nan
"""The score of a sample that failed, or that has none of its own; every other one is finite."""


@dataclass(frozen=True, slots=True)
class TaskScores:
    """The samples of one task on one model, in the order of their ids' digests.

    ``ids`` and ``questions`` are digests of 64 bits, ``places`` say where the rows stand, and ``categories`` are
    numbers in ``category_names`` (-1: none). ``parts`` are the tuples of figures that are not means, a row for each
    sample.
    """

    ids: NDArray[np.uint64]
    questions: NDArray[np.uint64]
    places: NDArray[np.uint64]
    categories: NDArray[np.int32]
    failed: NDArray[np.bool_]
    scores: Mapping[str, NDArray[np.float64]]
    parts: Mapping[str, NDArray[np.float64]]
    category_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def values(self, metric: str) -> NDArray[np.float64]:
        """Return what the figure of a metric is computed from."""
        return self.parts[metric] if metric in self.parts else self.scores[metric]


def digest_of(text: str) -> int:
    """Return 64 bits that stand for a text."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def read_scores(rows: Iterable[PlacedRow], wanted: Figures, run: str) -> dict[TaskOnModel, TaskScores]:
    """Read the scores of the tasks that are wanted; ``run`` is named where the rows are of an earlier version."""
    columns = {key: _Columns(names) for key, names in wanted.items()}
    for placed in rows:
        row, where = placed.row, placed.where
        task, model = _text(row, "task", where), _text(row, "model", where)
        found = columns.get((task, model))
        if found is not None:
            if "question" not in row:
                raise made_earlier(run)
            found.add(placed)
    return {key: each.sorted() for key, each in columns.items() if len(each.ids)}


class _Columns:
    """The growing columns of one task on one model."""

    def __init__(self, figures: Mapping[str, ResultRow]) -> None:
        self._figures = dict(figures)
        self.ids, self.questions, self.places = array("Q"), array("Q"), array("Q")
        self._categories, self._failed = array("i"), array("b")
        self._scores = {name: array("d") for name in figures}
        self._parts: dict[str, tuple[int, array[float]]] = {}
        self._names: dict[str, int] = {}

    def add(self, placed: PlacedRow) -> None:
        row, where = placed.row, placed.where
        self.ids.append(digest_of(_text(row, "id", where)))
        self.questions.append(digest_of(_text(row, "question", where)))
        self.places.append(placed.place)
        category = _text(row, "category", where) if row.get("category") is not None else None
        self._categories.append(-1 if category is None else self._names.setdefault(category, len(self._names)))
        failed = "failed" in row
        self._failed.append(failed)
        scores, parts = _mapping(row, "scores", where), _mapping(row, "parts", where)
        for name, column in self._scores.items():
            column.append(_FAILED if failed or self._lacks(name, scores) else _number(scores.get(name), name, where))
        for name in self._scores:
            if name in parts or name in self._parts:
                self._add_parts(name, parts.get(name), where, failed=failed)

    def _lacks(self, name: str, scores: Mapping[str, Any]) -> bool:
        """Whether a sample has no score of its own: a figure that is no mean may need more than one sample."""
        return name not in scores and self._figures[name].get("aggregate") is not None

    def _add_parts(self, name: str, found: Any, where: str, *, failed: bool) -> None:
        numbers = [] if failed else [_number(each, name, where) for each in _list(found, name, where)]
        before = len(self.ids) - 1
        if name not in self._parts:
            self._parts[name] = (len(numbers), array("d", [_FAILED] * (before * len(numbers))))
        width, column = self._parts[name]
        if not failed and len(numbers) != width:
            raise damaged_line(f"the parts of {name!r} are not as many as in the rows before", where)
        column.extend([_FAILED] * width if failed else numbers)

    def sorted(self) -> TaskScores:
        ids = np.frombuffer(self.ids, dtype=np.uint64)
        order = np.argsort(ids, kind="stable")
        parts = {
            name: np.frombuffer(column, dtype=np.float64).reshape(-1, width)[order]
            for name, (width, column) in self._parts.items()
            if width
        }
        return TaskScores(
            ids[order],
            np.frombuffer(self.questions, dtype=np.uint64)[order],
            np.frombuffer(self.places, dtype=np.uint64)[order],
            np.frombuffer(self._categories, dtype=np.int32)[order],
            np.frombuffer(self._failed, dtype=np.int8)[order] != 0,
            {name: np.frombuffer(column, dtype=np.float64)[order] for name, column in self._scores.items()},
            parts,
            tuple(self._names),
        )


# ---- rows of strangers ----


def _text(row: ResultRow, name: str, where: str) -> str:
    found = row.get(name)
    if not isinstance(found, str):
        raise damaged_line(f"this row has no text as its {name!r}", where)
    return found


def _mapping(row: ResultRow, name: str, where: str) -> Mapping[str, Any]:
    found = row.get(name, {})
    if not isinstance(found, Mapping):
        raise damaged_line(f"the {name!r} of this row are not named values", where)
    return found


def _list(found: Any, name: str, where: str) -> Iterable[Any]:
    if not isinstance(found, (list, tuple)) or not found:
        raise damaged_line(f"the parts of {name!r} are not numbers", where)
    return found


def _number(found: Any, name: str, where: str) -> float:
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        try:
            number = float(found)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise damaged_line(f"{name!r} of this row is not a finite number", where)


Aggregates: TypeAlias = Callable[[str, int], Reduce | None]
"""From the name of a rule and the size of its tuples to the rule by which they become a figure; None: unknown."""


@dataclass
class ComparedRun:
    """One run. ``figures`` has the rows of whole tasks that systems are compared by, by task and model, then metric."""

    record: RunRecord
    spec: Mapping[str, Any]
    label: str = ""
    figures: dict[TaskOnModel, dict[str, ResultRow]] = field(default_factory=dict)
    averages: list[ResultRow] = field(default_factory=list)
    scores: dict[TaskOnModel, TaskScores] = field(default_factory=dict)

    @property
    def models(self) -> list[str]:
        """The models of the run, in its order."""
        return list(dict.fromkeys(model for _, model in self.figures))

    def tasks(self, model: str) -> list[str]:
        """The tasks of one model that have samples, in their order."""
        return [task for task, of in self.figures if of == model and (task, of) in self.scores]

    def names(self, task: str, model: str) -> list[str]:
        """The names by which a user may choose a task: its own, those of its dataset, and of averages over it."""
        row = next(iter(self.figures[task, model].values()))
        labels = [row[label] for label in ("dataset", "of", "swept", "benchmark") if isinstance(row.get(label), str)]
        averages = [each["task"] for each in self.averages if each["model"] == model and task in all_parts(each)]
        return list(dict.fromkeys((task, *labels, *averages)))

    def keep_metric(self, metric: str | None) -> None:
        """Leave out all other metrics; None: keep all."""
        if metric is not None:
            kept = {key: {metric: rows[metric]} for key, rows in self.figures.items() if metric in rows}
            self.figures, self.averages = kept, [row for row in self.averages if row["metric"] == metric]

    @property
    def name(self) -> str:
        """The folder, or what stands for it in messages."""
        return self.label if self.record.path is None else str(self.record.path)

    @property
    def cautions(self) -> list[str]:
        """What a user should know of the figures before anything else."""
        told = None if self.record.path is None else older_figures(self.record.path, self.spec)
        return [] if told is None else [f"{self.label}: {told}"]

    def placed(self) -> Iterator[PlacedRow]:
        """Yield the rows of the samples."""
        if self.record.path is not None:
            yield from placed_rows(self.record.path)
            return
        for at, row in enumerate(self.record.samples):
            yield PlacedRow(row, at, f"{self.label}, sample {at + 1}")

    def ids(self, scores: TaskScores, positions: Iterable[int]) -> Iterator[str]:
        """Yield the ids of samples; they are read again, since only their digests are kept."""
        yield from (row["id"] for row in self.rows(scores, positions))

    def rows(self, scores: TaskScores, positions: Iterable[int]) -> Iterator[ResultRow]:
        """Yield the rows of samples, which are read again as they are needed."""
        chosen = list(positions)
        places = [int(scores.places[at]) for at in chosen]
        path = self.record.path
        rows = (self.record.samples[place] for place in places) if path is None else rows_at(path, places)
        for at, row in zip(chosen, rows, strict=True):
            found = row.get("id")
            if not isinstance(found, str) or digest_of(found) != int(scores.ids[at]):
                raise RunError("samples.jsonl has changed while it was read", where=self.name, hint="Compare again.")
            yield row


def open_run(run: str | Path | RunRecord) -> ComparedRun:
    """Open a run: a folder, or what ``evaluate`` returned."""
    if not isinstance(run, (str, Path, RunRecord)):
        raise UsageError(
            f"{run!r:.60} is not a run", hint="Give folders, or what kshot.evaluate and kshot.load return."
        )
    if isinstance(run, RunRecord) and run.path is None:
        return ComparedRun(run, {"identity": run.settings})
    path = run.path if isinstance(run, RunRecord) else Path(run)
    record = read_record(path or "")
    return ComparedRun(record, read_spec(path or ""))


def name_runs(runs: Sequence[ComparedRun]) -> None:
    """Give each run a short label of its own: the last parts of its path that differ from those of the others.

    A run without folder keeps the label that it has, if any.
    """
    paths = [Path(run.record.path).absolute().parts if run.record.path is not None else () for run in runs]
    for at, run in enumerate(runs):
        others = [other for other in paths if other != paths[at]]
        depth = 1
        while depth < len(paths[at]) and any(other[-depth:] == paths[at][-depth:] for other in others):
            depth += 1
        run.label = str(Path(*paths[at][-depth:])) if paths[at] else run.label or f"run {at + 1}"
    while twice := {label for label, count in Counter(run.label for run in runs).items() if count > 1}:
        for label in twice:  # the same folder, given twice
            for number, run in enumerate((run for run in runs if run.label == label), start=1):
                run.label = f"{label} ({number})"


def read_figures(run: ComparedRun) -> None:
    """Find the figures of whole tasks and the averages, by which systems are compared."""
    main = [row for row in run.record.results if not row.get("detail")]
    run.averages += [row for row in main if "average" in row and "tasks" in row and "gap" not in row]
    for row in task_rows(main):
        run.figures.setdefault((row["task"], row["model"]), {})[row["metric"]] = row


def bounds_of(row: ResultRow) -> tuple[float, float] | None:
    """Return the ends of the scale of a figure, as ``summary.json`` has them: null is no end. None: they are wrong."""
    if row.get("bounds") is None:
        return None
    low, high = row["bounds"]
    ends = (-math.inf if low is None else float(low), math.inf if high is None else float(high))
    return ends if ends[0] < ends[1] else None


def load_scores(run: ComparedRun, wanted: Collection[TaskOnModel], aggregates: Aggregates) -> Iterator[str]:
    """Read the scores of these tasks; yield what is left out of the comparison, and why.

    A figure that is computed from the samples must be that of ``summary.json``.
    """
    for figures in run.figures.values():
        for metric in [name for name, row in figures.items() if row.get("value") is None and row.get("n", 0)]:
            del figures[metric]
    names = {key: run.figures[key] for key in wanted}
    run.scores = read_scores(run.placed(), names, run.name)
    unruled: dict[str, None] = {}
    for key in wanted:
        scores, figures = run.scores.get(key), run.figures[key]
        for metric in list(figures):
            row = figures[metric]
            if scores is None:
                check_figure(row, 0, 0, None, run.name)
                yield f"{run.label}: {key[0]} has no samples of {key[1]}"
                continue
            answered = ~scores.failed
            reduce = rule_of(row, scores, aggregates)
            if reduce is None:
                unruled[metric] = None
                del figures[metric]
                continue
            values = sequence_of(scores.values(metric)[answered])
            value = reduce(values) if values else None
            check_figure(row, len(values), int(scores.failed.sum()), value, run.name)
    if unruled:
        yield (
            f"{run.label}: {', '.join(unruled)} cannot be computed from single samples by a rule of kshot, so runs are "
            "not compared by it"
        )


def rule_of(row: ResultRow, scores: TaskScores, aggregates: Aggregates) -> Reduce | None:
    """Return how the values of a metric become its figure; None: only the metric itself knows."""
    name, metric = row.get("aggregate"), row["metric"]
    if name is None:
        return mean
    if scores.failed.all():
        return mean  # there is nothing to sum up
    return aggregates(name, scores.parts[metric].shape[1]) if metric in scores.parts else None


def check_ids(run: ComparedRun) -> None:
    """Refuse a run that has an id twice in one task."""
    for (task, _), scores in run.scores.items():
        twice = np.flatnonzero(scores.ids[1:] == scores.ids[:-1])
        if len(twice):
            (found,) = run.ids(scores, [int(twice[0])])
            raise RunError(f"two samples of {task} have the id {found!r}", where=run.name, hint=WRITES_BOTH)


_UNKNOWN = (None, (-math.inf, math.inf))


def measure_conflict(one: ResultRow, other: ResultRow, labels: tuple[str, str]) -> str | None:
    """Return why figures of two runs, with these labels, are not the same measure though its name is; None: they are.

    Passages of different sizes are compared only by measures with a token budget: at equal k, larger ones win.
    """
    metric = one["metric"]
    if (one.get("higher_is_better") is False) != (other.get("higher_is_better") is False):
        return f"the runs disagree whether a higher {metric} is better"
    if conflict := scale_conflict(one, other, labels):
        return conflict
    if one.get("aggregate") != other.get("aggregate"):
        return f"the runs compute {metric} by different rules"
    if one.get("chunks") != other.get("chunks") and not one.get("token_budget"):
        return (
            f"the passages of {labels[0]} and {labels[1]} differ in size, so they are compared only by measures with a "
            "token budget"
        )
    return None


def scale_conflict(one: ResultRow, other: ResultRow, labels: tuple[str, str]) -> str | None:
    """Return why rows of ``summary.json`` of two runs, with these labels, are not on one scale.

    None: they are, or one of them does not say its scale.
    """
    mine, yours = bounds_of(one), bounds_of(other)
    if mine in _UNKNOWN or yours in _UNKNOWN or mine == yours:
        return None
    scales = " and ".join(f"{_told(*each)} in {label}" for each, label in zip((mine, yours), labels, strict=True))
    return f"the scales of {one['metric']} differ: {scales}"


def _told(low: float, high: float) -> str:
    if math.isinf(low):
        return f"up to {high:g}"
    return f"{low:g} or more" if math.isinf(high) else f"{low:g} to {high:g}"
