"""Watchers of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from kshot.core import interrupts
from kshot.core.budget import LimitReached
from kshot.core.errors import UsageError
from kshot.core.records import Outcome, ResultRow, Sample
from kshot.core.watcher import Meter, PlannedTask, RunEnd, Watcher


class SilentWatcher(Watcher):
    """A watcher that shows nothing."""


class Watchers(Watcher):
    """Several watchers as one: each is told everything, in this order."""

    def __init__(self, *watchers: Watcher | None) -> None:
        """Take the watchers; None stands for one that is not there."""
        self._all = tuple(watcher for watcher in watchers if watcher is not None)
        # Most watchers leave single samples alone: a sample costs nothing for them.
        self._at_answers = [each.answered for each in self._all if _looks(each, "answered")]
        self._at_scores = [each.scored for each in self._all if _looks(each, "scored")]

    def started(self, settings: Mapping[str, Any], path: Path | None) -> None:
        """Tell all that the run starts."""
        for watcher in self._all:
            watcher.started(settings, path)

    def planned(self, tasks: Sequence[PlannedTask], meter: Meter, *, complete: bool) -> None:
        """Tell all what the run will do."""
        for watcher in self._all:
            watcher.planned(tasks, meter, complete=complete)

    def begin(self, task: str, model: str, total: int | None) -> None:
        """Tell all that a task starts."""
        for watcher in self._all:
            watcher.begin(task, model, total)

    def answered(self, outcome: Outcome[Sample]) -> None:
        """Tell all that a sample is answered."""
        for tell in self._at_answers:
            tell(outcome)

    def scored(self, row: ResultRow) -> None:
        """Tell all that a sample is scored."""
        for tell in self._at_scores:
            tell(row)

    def finished(self, rows: Sequence[ResultRow]) -> None:
        """Tell all that a task is done."""
        for watcher in self._all:
            watcher.finished(rows)

    def ended(self, results: Sequence[ResultRow], usage: Sequence[ResultRow]) -> None:
        """Tell all that the run is done."""
        for watcher in self._all:
            watcher.ended(results, usage)

    def closed(self, state: RunEnd, error: BaseException | None) -> None:
        """Tell all that the run is over."""
        for watcher in self._all:
            watcher.closed(state, error)

    def note(self, text: str) -> None:
        """Show a note on all."""
        for watcher in self._all:
            watcher.note(text)

    def step(self, label: str, done: int, total: int) -> None:
        """Show a step on all."""
        for watcher in self._all:
            watcher.step(label, done, total)


def _looks(watcher: Watcher, at: Literal["answered", "scored"]) -> bool:
    """Whether a watcher does something at each sample."""
    if isinstance(watcher, Watchers):
        return bool(watcher._at_answers if at == "answered" else watcher._at_scores)  # noqa: SLF001 - of this class
    own = type(watcher).answered if at == "answered" else type(watcher).scored
    return own not in (Watcher.answered, Watcher.scored)


@contextmanager
def closing_for(watcher: Watcher) -> Iterator[None]:
    """Tell the watcher how the run of this block ends."""
    try:
        yield
    except BaseException as exc:
        signalled = isinstance(exc, KeyboardInterrupt) or interrupts.received() is not None
        watcher.closed("stopped" if signalled or isinstance(exc, LimitReached) else "failed", exc)
        raise
    watcher.closed("done", None)


def given_watchers(watcher: Watcher | Sequence[Watcher] | None) -> list[Watcher]:
    """Return the watchers that a user gives: none, one or several."""
    if watcher is None:
        return []
    given: list[Any] = list(watcher) if isinstance(watcher, (list, tuple)) else [watcher]
    for each in given:
        if Watcher not in type(each).__mro__:
            raise UsageError(f"watcher is {each!r:.60}; it must be an object of a class that inherits kshot.Watcher")
    return given
