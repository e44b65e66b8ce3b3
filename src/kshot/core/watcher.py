"""Watching a run: the tasks that it plans, the meter that counts them, and the protocol of those who follow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from kshot.core.failed_parts import failure_mark
from kshot.core.records import Outcome, ResultRow, Sample
from kshot.core.visible import metric_label


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """A task that a run will do on one model; ``total`` is the number of its samples, as far as it is known.

    ``group``: the dataset that the task is a subset of, or "". A model may call itself otherwise once it is open.
    ``metrics``: the names of its figures, without kinds of error; none where they are not known yet.
    """

    task: str
    model: str = ""
    total: int | None = None
    group: str = ""
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MeterReading:
    """How far the task is that runs now: its samples, and what this session has spent on them.

    ``done`` counts the samples that are answered or have failed, ``recalled`` those of them whose answers were all in
    the journal. ``value`` is the figure of the first metric over the ``scored`` samples, with its 95 % interval;
    None where there is none yet. ``cost_usd`` is None where no price is known. ``workers``: what those of the model do
    now, in a line; "" for a model without workers. ``ahead``: samples of the tasks that follow which are answered
    already, ``ahead_recalled`` those of them from the journal. ``rule``: the rule of the metric.
    """

    done: int = 0
    recalled: int = 0
    failed: int = 0
    retried: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    metric: str = ""
    scored: int = 0
    value: float | None = None
    interval: tuple[float, float] | None = None
    workers: str = ""
    ahead: int = 0
    ahead_recalled: int = 0
    rule: str = ""

    @property
    def label(self) -> str:
        """The metric with its rule."""
        return metric_label({"metric": self.metric, "rule": self.rule})

    @property
    def mark(self) -> str:
        """The mark of the figure, if many samples have failed."""
        return failure_mark({"n": self.scored, "failed": self.failed})


class Meter(Protocol):
    """Counts what a run does. Watchers read it when they show something; a sample costs them nothing."""

    def read(self) -> MeterReading:
        """Return the counts of the task that runs now, or of the last one. Any thread may call this."""
        ...


RunEnd: TypeAlias = Literal["done", "stopped", "failed"]
"""How a run ended: a signal or a limit stops it, an error makes it fail."""


class Watcher(Protocol):
    """Follows a run, and shows or logs it. The run calls it at its start, around every task and after every sample."""

    def started(self, settings: Mapping[str, Any], path: Path | None, /) -> None:  # noqa: ARG002 - for classes that override it
        """Note that the run starts: its models, datasets and options that are not at their defaults, and its folder."""
        return

    def planned(self, tasks: Sequence[PlannedTask], meter: Meter, /, *, complete: bool) -> None:  # noqa: ARG002 - for classes that override it
        """Note what the run will do, in its order; ``complete``: these are all its tasks. ``meter`` counts them."""
        return

    def begin(self, task: str, model: str, total: int | None, /) -> None:  # noqa: ARG002 - for classes that override it
        """Note that a task starts."""
        return

    def answered(self, outcome: Outcome[Sample], /) -> None:  # noqa: ARG002 - for classes that override it
        """Note that a sample is answered, or has failed."""
        return

    def scored(self, row: ResultRow, /) -> None:  # noqa: ARG002 - for classes that override it
        """Note that a sample is scored; ``row`` is its row of ``samples.jsonl``. Samples are scored in their order."""
        return

    def finished(self, rows: Sequence[ResultRow], /) -> None:  # noqa: ARG002 - for classes that override it
        """Note that a task is done on one model; ``rows`` are its figures."""
        return

    def ended(self, results: Sequence[ResultRow], usage: Sequence[ResultRow], /) -> None:  # noqa: ARG002 - for classes that override it
        """Note that the whole run is done, with all its figures and what its models used; its files are written."""
        return

    def closed(self, state: RunEnd, error: BaseException | None, /) -> None:  # noqa: ARG002 - for classes that override it
        """Note that the run is over and its folder closed: nothing follows. ``error`` is what has ended it early."""
        return

    def note(self, text: str, /) -> None:  # noqa: ARG002 - for classes that override it
        """Show a note to the user."""
        return

    def step(self, label: str, done: int, total: int, /) -> None:  # noqa: ARG002 - for classes that override it
        """Show the progress of work that comes before a task, such as building an index."""
        return


def looks_at(watcher: Watcher, event: Literal["answered", "scored"]) -> bool:
    """Whether a watcher does something at each sample; one that passes events on does so if the one behind it does."""
    while isinstance(watcher, PassingWatcher):
        watcher = watcher.behind
    told, idle = (watcher.answered, Watcher.answered) if event == "answered" else (watcher.scored, Watcher.scored)
    return getattr(told, "__func__", None) is not idle


class PassingWatcher(Watcher):
    """A watcher that passes events on to the one behind it."""

    def __init__(self, behind: Watcher) -> None:
        """Take the watcher behind this one."""
        self.behind = behind
