"""How much the choice of examples alone moves a score: the same tasks over several seeds of that choice."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kshot.core.errors import UsageError
from kshot.core.options import with_options
from kshot.core.protocols import Model, Source
from kshot.core.records import ResultRow
from kshot.core.specs import parse_spec
from kshot.core.task import Task, TaskResult
from kshot.runs.results import result_rows
from kshot.settings import Settings

MAX_SEED = 2**32 - 1


class Spread(NamedTuple):
    """A figure over several draws of examples; a single draw has no standard deviation."""

    mean: float
    sd: float | None
    min: float
    max: float


@dataclass(frozen=True, slots=True)
class ExampleDraws(Source[Settings]):
    """Runs a source once for every seed of ``--retriever-seeds``, and reports the spread that the choice causes.

    ``text`` is what the user wrote; ``source`` makes the source for the settings of one draw; ``whole`` is the source
    for the settings of the run, whose models and judges every draw uses.
    """

    text: str
    source: Callable[[Settings], Source[Settings]]
    whole: Source[Settings]

    @property
    def label(self) -> str:
        """The source as the user wrote it."""
        return self.text

    @property
    def has_corpus(self) -> bool:
        """Whether the tasks of the source have passages."""
        return self.whole.has_corpus

    @property
    def models(self) -> Sequence[str]:
        """The models that the source names."""
        return self.whole.models

    @property
    def judges(self) -> Sequence[str]:
        """The judges that the source names."""
        return self.whole.judges

    def searches(self, settings: Settings) -> bool:
        """Whether search engines are evaluated on the source."""
        return self.whole.searches(settings)

    def packages(self, settings: Settings, *, scored: bool = True) -> Mapping[str, Sequence[str]]:
        """Return the packages that the source needs."""
        return self.whole.packages(settings, scored=scored)

    def tasks(
        self, settings: Settings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """Compile the source with every seed; the name of a task ends in ``@SEED``."""
        spec = parse_spec(self.text)
        if "seed" in spec.options:
            raise UsageError(
                "--retriever-seeds sets the seed of each draw", where=self.text, hint="Remove the option seed."
            )
        of_dataset = with_options(settings, spec)
        if not of_dataset.num_shots and not of_dataset.shots:
            raise UsageError("--retriever-seeds needs examples to choose", hint="Add --num-shots K.")
        for seed in parse_seeds(settings.retriever_seeds or ""):
            drawn = replace(settings, seed=seed, retriever_seeds=None)
            suffix = f"@{seed}"
            earlier = {name.removesuffix(suffix): each for name, each in (facts or {}).items() if name.endswith(suffix)}
            for task in self.source(drawn).tasks(drawn, model, earlier):
                labels = {**task.labels, "of": task.name, "example_seed": seed}
                yield replace(task, name=f"{task.name}{suffix}", labels=labels)

    def totals(self, results: Sequence[TaskResult]) -> Iterator[ResultRow]:
        """Return the spread of every figure over the draws."""
        return spread_rows(results)


def parse_seeds(text: str) -> range:
    """Read ``0..9`` (both ends included) or a single seed."""
    match = re.fullmatch(r"\s*(\d+)\s*(?:\.\.\s*(\d+)\s*)?", text, re.ASCII)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if first > last or last > MAX_SEED:
        raise UsageError(f"--retriever-seeds is {text!r}", hint="Write first..last, such as 0..9.")
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

    ``ci95`` is the mean of the draws' sampling intervals, to compare with the spread.
    """
    groups: dict[tuple[str, str], list[ResultRow]] = {}
    for result in results:
        for row in result_rows(result):
            if row["value"] is not None and row["task"] == result.task.name:
                groups.setdefault((row["of"], row["metric"]), []).append(row)
    for (task, metric), rows in groups.items():
        found = spread({row["example_seed"]: row["value"] for row in rows})
        intervals = [row["ci95"] for row in rows if row["ci95"] is not None]
        yield {
            "task": f"{task}[{len(rows)} draws of examples]",
            "model": rows[0]["model"],
            "metric": metric,
            **{name: rows[0][name] for name in ("detail", "higher_is_better") if name in rows[0]},
            "value": found.mean,
            "n": rows[0]["n"],
            "failed": sum(row["failed"] for row in rows),
            "ci95": [statistics.mean(ends) for ends in zip(*intervals, strict=True)] if intervals else None,
            "sd": found.sd,
            "lowest": found.min,
            "highest": found.max,
        }
