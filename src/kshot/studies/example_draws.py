"""How much the choice of examples alone moves a score: the same tasks over several seeds of that choice."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kshot.core.errors import UsageError
from kshot.core.protocols import Model, Source
from kshot.core.records import ResultRow, Sample
from kshot.core.specs import parse_spec, with_options
from kshot.core.task import Task, TaskResult
from kshot.core.watcher import PlannedTask
from kshot.runs.results import result_rows
from kshot.runs.task_run import start_sample
from kshot.settings import Settings
from kshot.statistics.averages import AveragedPart, average_row
from kshot.studies.wrapped import WrappedSource

MAX_SEED = 2**32 - 1
_MAX_SEEDS = 1000


class Spread(NamedTuple):
    """A figure over several draws of examples; a single draw has no standard deviation."""

    mean: float
    sd: float | None
    min: float
    max: float


@dataclass(frozen=True, slots=True)
class ExampleDraws(WrappedSource):
    """Runs a source once for every seed of ``--retriever-seeds``, and reports the spread that the choice causes.

    Every draw uses the models and judges of ``whole``. ``drawn`` makes the source and the settings of one draw from
    those of the run and a seed.
    """

    drawn: Callable[[Settings, int], tuple[Source[Settings], Settings]]

    def tasks(
        self, settings: Settings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """Compile the source with every seed; the name of a task ends in ``@SEED``."""
        seeds = parse_seeds(settings.retriever_seeds or "")
        compiled = self._until_they_differ(seeds, lambda seed: list(self._draw(settings, seed, model, facts)))
        if len(seeds) > 1 and len(compiled) == 1:
            # They would repeat one figure, and a spread of 0 would say that the choice of examples does not matter.
            said = f"--retriever-seeds {seeds[0]}..{seeds[-1]}: every seed chooses the same examples"
            if facts is None and with_options(settings, parse_spec(self.text)).retriever is not None:
                hint = "Leave it out, or choose a retriever that draws, such as random or lm_eval."
                raise UsageError(f"{said}, so there is no spread", where=self.text, hint=hint)
            note = f"{said}: all that there are, or those that the dataset fixes. The spread says nothing"
            compiled[seeds[0]] = [replace(task, notes=(*task.notes, note)) for task in compiled[seeds[0]]]
        for seed in seeds:
            yield from compiled.pop(seed, None) or self._draw(settings, seed, model, facts)

    def rehearsals(self, settings: Settings) -> Iterator[Task[Any]]:
        """Compile the first draw; the others differ from it by their examples."""
        source, drawn = self.drawn(settings, parse_seeds(settings.retriever_seeds or "")[0])
        return source.rehearsals(drawn)

    def planned(self, settings: Settings, rehearsed: Sequence[PlannedTask]) -> Sequence[PlannedTask] | None:
        """Return the tasks of all draws."""
        seeds = parse_seeds(settings.retriever_seeds or "")
        source, drawn = self.drawn(settings, seeds[0])
        tasks = source.planned(drawn, rehearsed)
        return tasks and [replace(task, task=f"{task.task}@{seed}") for seed in seeds for task in tasks]

    def check(self, settings: Settings) -> None:
        """Refuse settings that leave nothing to draw, or that set the seed of the draws elsewhere."""
        spec = parse_spec(self.text)
        if "seed" in spec.options:
            raise UsageError(
                "--retriever-seeds sets the seed of each draw", where=self.text, hint="Remove the option seed."
            )
        of_dataset = with_options(settings, spec)
        if not of_dataset.num_shots and not of_dataset.shots:
            raise UsageError("--retriever-seeds needs examples to choose", hint="Add --num-shots K.")
        retriever = of_dataset.retriever
        if retriever is not None and "seed" in parse_spec(retriever).options:
            raise UsageError(
                "--retriever-seeds sets the seed of each draw", where=retriever, hint="Remove the option seed."
            )
        self.whole.check(settings)

    def _draw(
        self, settings: Settings, seed: int, model: Model | None, facts: Mapping[str, Any] | None
    ) -> Iterator[Task[Any]]:
        """Compile the source with one seed."""
        (source, drawn), suffix = self.drawn(settings, seed), f"@{seed}"
        earlier = {name.removesuffix(suffix): each for name, each in (facts or {}).items() if name.endswith(suffix)}
        for task in source.tasks(drawn, model, earlier):
            labels = {**task.labels, "of": task.name, "example_seed": seed}
            yield replace(task, name=f"{task.name}{suffix}", labels=labels)

    @staticmethod
    def _until_they_differ(seeds: range, draw: Callable[[int], list[Task[Any]]]) -> dict[int, list[Task[Any]]]:
        """Return the first draw, and the next one that has other prompts, if there is one."""
        first = draw(seeds[0])
        for seed in seeds[1:]:
            found = draw(seed)
            if any(not same_prompts(one, other) for one, other in zip(first, found, strict=True)):
                return {seeds[0]: first, seed: found}
        return {seeds[0]: first}

    def totals(self, results: Sequence[TaskResult]) -> Iterator[ResultRow]:
        """Return the spread of every figure over the draws."""
        return spread_rows(results)


def same_prompts(one: Task[Any], other: Task[Any]) -> bool:
    """Whether two tasks with the same samples ask the same first requests."""
    return all(
        _first_requests(one, a) == _first_requests(other, b) for a, b in zip(one.samples, other.samples, strict=True)
    )


def _first_requests(task: Task[Any], sample: Sample) -> Sequence[Any]:
    with closing(start_sample(task, sample)) as method:
        return tuple(next(method, ()))


def parse_seeds(text: str) -> range:
    """Read ``0..9`` (both ends included) or a single seed."""
    match = re.fullmatch(r"\s*(\d{1,18})\s*(?:\.\.\s*(\d{1,18})\s*)?", text, re.ASCII)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if first > last or last > MAX_SEED:
        raise UsageError(f"--retriever-seeds is {text!r}", hint="Write first..last, such as 0..9.")
    if last - first >= _MAX_SEEDS:
        what = f"--retriever-seeds is {text!r}, {last - first + 1:,} seeds; there may be {_MAX_SEEDS:,}"
        raise UsageError(what, hint="Write fewer, such as 0..9.")
    return range(first, last + 1)


def spread(values_by_seed: Mapping[int, float]) -> Spread:
    """Return mean, sample standard deviation (over n - 1), minimum and maximum of one figure per draw."""
    values = [float(value) for value in values_by_seed.values()]
    if not values:
        raise UsageError("there are no values to compute a spread of")
    sd = statistics.stdev(values) if len(values) > 1 else None
    return Spread(statistics.mean(values), sd, min(values), max(values))


def spread_rows(results: Sequence[TaskResult]) -> Iterator[ResultRow]:
    """Yield mean, standard deviation and extremes of each figure over the draws of one task.

    ``ci95`` is the mean of the draws' sampling intervals, to compare with the spread. Draws of which more than half of
    the samples failed are left out.
    """
    groups: dict[tuple[str, str], list[tuple[AveragedPart, ResultRow]]] = {}
    for result in results:
        for row in result_rows(result):
            if row["task"] == result.task.name:
                part = AveragedPart(result.task.name, row["value"], (result,))
                groups.setdefault((row["of"], row["metric"]), []).append((part, row))
    for (task, metric), drawn in groups.items():
        rows = [row for part, row in drawn if row["value"] is not None and not part.is_lost]
        if not rows:
            continue
        found = spread({row["example_seed"]: row["value"] for row in rows})
        intervals = [row["ci95"] for row in rows if row["ci95"] is not None]
        labels: ResultRow = {
            "task": f"{task}[{len(rows)} draws of examples]",
            "metric": metric,
            **{name: rows[0][name] for name in ("rule", "detail", "higher_is_better") if name in rows[0]},
        }
        averaged = [part for part, row in drawn if row["value"] is not None or part.is_lost]
        mean: ResultRow = average_row(labels, averaged) or {}
        yield mean | {
            "n": rows[0]["n"],
            "ci95": [statistics.mean(ends) for ends in zip(*intervals, strict=True)] if intervals else None,
            "sd": found.sd,
            "lowest": found.min,
            "highest": found.max,
        }
