"""What the samples of a task came to: values by metric, figures with intervals, averages over subsets."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from statistics import mean, stdev
from typing import Any

from kshot.core.errors import DataError, KshotError
from kshot.core.offsets import Offsets
from kshot.core.records import Request, Response, Sample, Value
from kshot.core.task import Scorer, Task
from kshot.statistics.intervals import interval, macro_interval, paired

Row = dict[str, Any]


@dataclass(slots=True)
class Tally:
    """What the samples of one task on one model came to."""

    task: Task[Any]
    model: str
    values: dict[str, MutableSequence[Any]] = field(default_factory=dict)
    positions: array[int] = field(default_factory=lambda: array("q"))
    categories: list[str | None] = field(default_factory=list)
    failed_categories: list[str | None] = field(default_factory=list)
    unanswered: int = 0
    first_failure: str = ""
    usage: dict[str, list[int]] = field(default_factory=dict)
    """By role (``model``, ``judge``): tokens read and written, equal requests counted once."""
    _counted: Offsets = field(default_factory=Offsets)

    @property
    def failed(self) -> int:
        """Samples without an answer."""
        return len(self.failed_categories)

    def named(self) -> Iterator[tuple[str, Scorer]]:
        """Every reported name with the metric it belongs to."""
        for metric in self.task.metrics:
            for name in metric.names:
                yield name, metric

    def add(self, position: int, sample: Sample, scores: Mapping[str, Value]) -> None:
        """Count one scored sample, the one at this position of the task."""
        self.positions.append(position)
        self.categories.append(sample.category)
        for name, value in scores.items():
            held = self.values.get(name)
            if held is None:  # plain numbers go into a flat array: a quarter of a list's memory
                empty: MutableSequence[Any] = [] if isinstance(value, tuple) else array("d")
                held = self.values[name] = empty
            held.append(value)

    def spend(self, exchanges: Iterable[tuple[Request, Response]]) -> None:
        """Count the tokens of these responses, once for equal requests."""
        for request, response in exchanges:
            usage = getattr(response, "usage", None)
            if usage is None or (mark := hash(request) % 2**64) in self._counted:
                continue
            self._counted[mark] = 0
            sums = self.usage.setdefault(request.to, [0, 0])
            sums[0] += usage.prompt_tokens
            sums[1] += usage.completion_tokens

    def rows(self) -> Iterator[Row]:
        """Give the figures of each category, then of the whole task."""
        for category in sorted({c for c in (*self.categories, *self.failed_categories) if c is not None}):
            for name, metric in self.named():
                values = self.values.get(name, [])
                chosen = [v for v, c in zip(values, self.categories, strict=True) if c == category]
                yield self._row(
                    f"{self.task.name}[{category}]", name, metric, chosen, self.failed_categories.count(category)
                )
        for name, metric in self.named():
            row = self._row(self.task.name, name, metric, self.values.get(name, []), self.failed)
            yield row | {"unanswered": self.unanswered} if self.unanswered else row

    def _row(self, task: str, name: str, metric: Scorer, values: Sequence[Value], failed: int) -> Row:
        reduce = partial(_reduced, metric, name, f"dataset {task}")
        return {
            "task": task,
            "model": self.model,
            **self.task.labels,
            "metric": name,
            "value": reduce(values) if values else None,
            "n": len(values),
            "failed": failed,
            "ci95": _listed(interval(values, reduce, right=_right(metric)), metric, values) if values else None,
        }


def _reduced(metric: Scorer, name: str, where: str, values: Sequence[Value]) -> float:
    try:
        figure = float(metric.reduce(name, values))
    except KshotError:
        raise
    except Exception as exc:
        raise DataError(f"{name} cannot be summed up: {type(exc).__name__}: {exc}", where=where) from exc
    if not math.isfinite(figure):
        raise DataError(f"{name} came to {figure}, which is not a finite number", where=where)
    return figure


def macro_rows(
    dataset: str, tallies: Mapping[str, Tally], categories: Mapping[str, Sequence[str]] | None
) -> Iterator[Row]:
    """Unweighted averages over subsets: of each category that ran whole with two or more, and of all."""
    groups = {
        f"{dataset}[{name.replace('_', ' ').title()} Macro Average]": list(subsets)
        for name, subsets in (categories or {}).items()
        if len(subsets) > 1 and all(subset in tallies for subset in subsets)
    }
    if len(tallies) > 1:
        groups[f"{dataset}[Macro Average]"] = list(tallies)
    for label, subsets in groups.items():
        chosen = [tallies[subset] for subset in subsets]
        for name, metric in chosen[0].named():
            values = [tally.values.get(name, []) for tally in chosen]
            if not all(values):
                continue
            reduce = partial(metric.reduce, name)
            yield {
                "task": label,
                "model": chosen[0].model,
                "metric": name,
                "value": sum(reduce(each) for each in values) / len(values),
                "n": sum(len(each) for each in values),
                "failed": sum(tally.failed for tally in chosen),
                "ci95": _listed(
                    macro_interval(values, reduce, right=_right(metric)), metric, [v for each in values for v in each]
                ),
            }


def _right(metric: Scorer) -> float:
    """The value of a right answer: the upper end of the metric's scale, 100 if it has none."""
    bounds: tuple[float, float] | None = getattr(metric, "bounds", None)
    return bounds[1] if bounds else 100.0


def _listed(found: tuple[float, float] | None, metric: Scorer, values: Sequence[Value]) -> list[float] | None:
    """An interval as JSON has it, within the metric's scale; values of 0 and 100 alone are shares."""
    if found is None:
        return None
    bounds = getattr(metric, "bounds", None)
    if bounds is None and all(value in {0.0, 100.0} for value in values):
        bounds = (0.0, 100.0)
    low, high = bounds or (-math.inf, math.inf)
    return [max(low, found[0]), min(high, found[1])]


def spread_rows(tallies: Sequence[Tally]) -> Iterator[Row]:
    """What the choice of examples alone does to a figure: its mean, spread and ends over the draws of one task.

    ``ci95`` is the mean sampling interval of a single draw, to be held against the spread.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for tally in tallies:
        for row in tally.rows():
            if row["value"] is not None and row["task"] == tally.task.name:
                groups.setdefault((row["of"], row["metric"]), []).append(row)
    for (task, metric), rows in groups.items():
        values = [row["value"] for row in rows]
        intervals = [row["ci95"] for row in rows if row["ci95"] is not None]
        yield {
            "task": f"{task}[{len(rows)} draws of examples]",
            "model": rows[0]["model"],
            "metric": metric,
            "value": mean(values),
            "n": rows[0]["n"],
            "failed": sum(row["failed"] for row in rows),
            "ci95": [mean([low for low, _ in intervals]), mean([high for _, high in intervals])] if intervals else None,
            "sd": stdev(values) if len(values) > 1 else None,
            "lowest": min(values),
            "highest": max(values),
        }


def compared(tallies: Sequence[Tally]) -> list[Row]:
    """Hold every two systems that were given the same samples against each other, sample by sample.

    ``ahead`` names the better one only where the 95 % interval of the difference excludes zero. Passages of different
    sizes are compared by measures with a token budget alone: at equal k the larger ones win for no good reason.
    """
    groups: dict[str, list[Tally]] = {}
    for tally in tallies:
        groups.setdefault(str(tally.task.labels.get("benchmark", tally.task.name)), []).append(tally)
    return [
        row
        for name, group in groups.items()
        for one, other in combinations(group, 2)
        for row in _between(name, one, other, several_cuts=len({each.task.labels.get("chunks") for each in group}) > 1)
    ]


def _between(name: str, one: Tally, other: Tally, *, several_cuts: bool) -> Iterator[Row]:
    same_cut = one.task.labels.get("chunks") == other.task.labels.get("chunks")
    here, there = (dict(zip(each.positions, range(len(each.positions)), strict=True)) for each in (one, other))
    shared = [(here[position], there[position]) for position in here if position in there]
    for metric, scorer in one.named():
        detail = ":" in metric  # shares of one kind of error, and the like: too many, and of no rank
        if detail or metric not in other.values or not shared or not (same_cut or metric.endswith("t")):
            continue
        ones = [one.values[metric][i] for i, _ in shared]
        others = [other.values[metric][j] for _, j in shared]
        found = paired(ones, others, partial(scorer.reduce, metric))
        names = [f"{t.model} · {t.task.labels['chunks']}" if several_cuts else t.model for t in (one, other)]
        sure = found.interval is not None and not found.interval[0] <= 0 <= found.interval[1]
        yield {
            "task": name,
            "metric": metric,
            "a": names[0],
            "b": names[1],
            "difference": found.difference,
            "ci95": list(found.interval) if found.interval else None,
            "p": found.p,
            "wins": found.wins,
            "losses": found.losses,
            "ties": found.ties,
            "n": len(shared),
            "ahead": (names[0] if found.difference > 0 else names[1]) if sure else None,
        }
