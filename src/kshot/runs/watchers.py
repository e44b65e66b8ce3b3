"""Watchers of a run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from kshot.core import interrupts
from kshot.core.budget import LimitReached
from kshot.core.copies import own_copy
from kshot.core.errors import UsageError
from kshot.core.records import Outcome, ResultRow, Sample
from kshot.core.visible import one_line
from kshot.core.watcher import Meter, PlannedTask, RunEnd, Watcher, looks_at


class SilentWatcher(Watcher):
    """A watcher that shows nothing."""


class Watchers(Watcher):
    """Several watchers as one: each is told everything, in this order, until one of them raises an error.

    Each gets copies of its own: whatever a watcher does with a row, the run and the other watchers do not see it.
    """

    def __init__(self, *watchers: Watcher | None) -> None:
        """Take the watchers; None stands for one that is not there."""
        self._all: tuple[Watcher, ...] = ()
        for each in watchers:
            if each is not None:
                self._all += each._all if isinstance(each, Watchers) else (each,)  # noqa: SLF001 - of this class
        # Most watchers leave single samples alone: a sample costs nothing for them.
        self._at_answers = [each.answered for each in self._all if looks_at(each, "answered")]
        self._at_scores = [each.scored for each in self._all if looks_at(each, "scored")]

    def started(self, settings: Mapping[str, Any], path: Path | None) -> None:
        """Tell all that the run starts."""
        for watcher in self._all:
            watcher.started(own_copy(settings), path)

    def planned(self, tasks: Sequence[PlannedTask], meter: Meter, *, complete: bool) -> None:
        """Tell all what the run will do."""
        for watcher in self._all:
            watcher.planned(tuple(tasks), meter, complete=complete)

    def begin(self, task: str, model: str, total: int | None) -> None:
        """Tell all that a task starts."""
        for watcher in self._all:
            watcher.begin(task, model, total)

    def answered(self, outcome: Outcome[Sample]) -> None:
        """Tell all that a sample is answered."""
        for tell in self._at_answers:
            tell(own_copy(outcome))

    def scored(self, row: ResultRow) -> None:
        """Tell all that a sample is scored."""
        for tell in self._at_scores:
            tell(own_copy(row))

    def finished(self, rows: Sequence[ResultRow]) -> None:
        """Tell all that a task is done."""
        for watcher in self._all:
            watcher.finished(own_copy(rows))

    def ended(self, results: Sequence[ResultRow], usage: Sequence[ResultRow]) -> None:
        """Tell all that the run is done."""
        for watcher in self._all:
            watcher.ended(own_copy(results), own_copy(usage))

    def closed(self, state: RunEnd, error: BaseException | None) -> None:
        """Tell all that the run is over. Each may have something to close: the first error is raised after that."""
        first: BaseException | None = None
        for watcher in self._all:
            try:
                watcher.closed(state, error)
            except BaseException as exc:  # noqa: BLE001, PERF203 - it is raised when all are closed
                first = exc if first is None else first
        if first is not None:
            raise first

    def note(self, text: str) -> None:
        """Show a note on all."""
        for watcher in self._all:
            watcher.note(text)

    def step(self, label: str, done: int, total: int) -> None:
        """Show a step on all."""
        for watcher in self._all:
            watcher.step(label, done, total)


@contextmanager
def closing_for(watcher: Watcher) -> Iterator[None]:
    """Tell the watcher how the run of this block ends. The error that ends the run is raised, not one of the end."""
    try:
        yield
    except BaseException as exc:
        signalled = isinstance(exc, KeyboardInterrupt) or interrupts.received() is not None
        try:
            watcher.closed("stopped" if signalled or isinstance(exc, LimitReached) else "failed", exc)
        except Exception as late:  # noqa: BLE001 - a watcher may raise anything
            warnings.warn(f"a watcher was not closed: {type(late).__name__}: {one_line(late)}", stacklevel=2)
        raise
    watcher.closed("done", None)


class ShownLogger(Watcher, Protocol):
    """A logger of a run, as ``loggers`` makes it: it tells on another watcher what the run waits for."""

    notes: list[str]
    """What the user is to know of it at the end."""

    def show_on(self, watcher: Watcher, /) -> None:
        """Tell it on this watcher."""
        ...


@contextmanager
def following(watcher: Watcher | Sequence[Watcher] | None, loggers: Sequence[ShownLogger]) -> Iterator[Watchers]:
    """Give the watchers and loggers of a user as one, and tell all of them how the run of this block ends."""
    shown = Watchers(*given_watchers(watcher))
    for logger in loggers:
        logger.show_on(shown)
    watching = Watchers(shown, *loggers)
    with closing_for(watching):
        yield watching


def given_watchers(watcher: Watcher | Sequence[Watcher] | None) -> list[Watcher]:
    """Return the watchers that a user gives: none, one or several."""
    if watcher is None:
        return []
    given: list[Any] = list(watcher) if isinstance(watcher, (list, tuple)) else [watcher]
    for each in given:
        if Watcher not in type(each).__mro__:
            raise UsageError(f"watcher is {each!r:.60}; it must be an object of a class that inherits kshot.Watcher")
    return given
