"""A logger whose errors do not reach the run: the first one is told once, and ends the logging."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kshot.core import interrupts
from kshot.core.command_line import without_secrets
from kshot.core.errors import KshotError
from kshot.core.records import Outcome, ResultRow, Sample
from kshot.core.visible import one_line
from kshot.core.watcher import Meter, PlannedTask, RunEnd, Watcher

_MOST_CHARACTERS = 300
"""Of an error in a note: a server may answer with a whole page."""


_GOES_ON = "logging stops, the run goes on"


class GuardedLogger(Watcher):
    """Passes everything on to a logger, until the logger raises an error.

    What it says of its own set-up when the run starts (a ``KshotError``) is an error of the run: nothing is asked yet.
    """

    def __init__(self, logger: Watcher, name: str) -> None:
        """Take the logger, and the name that the note has."""
        self._logger, self._name = logger, name
        self._shown: Watcher | None = None
        self._works = True
        self.notes: list[str] = []

    def show_on(self, watcher: Watcher) -> None:
        """Show on this watcher what the run waits for, and the note about an error."""
        self._shown = watcher

    def started(self, settings: Mapping[str, Any], path: Path | None) -> None:
        """Pass it on; an error of the set-up is raised."""
        try:
            with self._waited_for():
                self._logger.started(settings, path)
        except KshotError:
            self._works = False
            raise
        except (Exception, SystemExit) as exc:  # noqa: BLE001 - a tool may raise anything
            self._stop(exc)

    def planned(self, tasks: Sequence[PlannedTask], meter: Meter, *, complete: bool) -> None:
        """Pass it on."""
        self._pass(lambda: self._logger.planned(tasks, meter, complete=complete))

    def begin(self, task: str, model: str, total: int | None) -> None:
        """Pass it on."""
        self._pass(lambda: self._logger.begin(task, model, total))

    def answered(self, outcome: Outcome[Sample]) -> None:
        """Pass it on."""
        self._pass(lambda: self._logger.answered(outcome))

    def scored(self, row: ResultRow) -> None:
        """Pass it on."""
        self._pass(lambda: self._logger.scored(row))

    def finished(self, rows: Sequence[ResultRow]) -> None:
        """Pass it on."""
        self._pass(lambda: self._logger.finished(rows))

    def ended(self, results: Sequence[ResultRow], usage: Sequence[ResultRow]) -> None:
        """Pass it on."""
        self._pass(lambda: self._logger.ended(results, usage))

    def closed(self, state: RunEnd, error: BaseException | None) -> None:
        """Pass it on, also after an error: what the logger has opened is to be closed."""
        with self._waited_for():
            if self._works:
                self._pass(lambda: self._logger.closed(state, error), "the last of it may not be logged")
            else:
                with suppress(Exception, SystemExit):
                    self._logger.closed(state, error)

    def note(self, text: str) -> None:
        """Pass it on."""
        self._pass(lambda: self._logger.note(text))

    def step(self, label: str, done: int, total: int) -> None:
        """Pass it on."""
        self._pass(lambda: self._logger.step(label, done, total))

    def _pass(self, call: Callable[[], None], then: str = _GOES_ON) -> None:
        if not self._works:
            return
        try:
            call()
        except (Exception, SystemExit) as exc:  # noqa: BLE001 - a tool may raise anything
            self._stop(exc, then)

    def _stop(self, error: BaseException, then: str = _GOES_ON) -> None:
        """Log no more, and say why."""
        if interrupts.received() is not None:  # a signal may come out of a library as any error
            raise error
        self._works = False
        (text,) = without_secrets([one_line(f"{type(error).__name__}: {error}").rstrip(".")])
        shown = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
        self.notes.append(f"{self._name}: {shown}; {then}")
        if self._shown is not None:
            self._shown.note(self.notes[-1])

    @contextmanager
    def _waited_for(self) -> Iterator[None]:
        """Say what the run waits for: a server may be slow, or gone."""
        tell = (lambda *_: None) if self._shown is None else self._shown.step
        tell(f"waiting for {self._name}", 0, 1)
        try:
            yield
        finally:
            tell(f"waiting for {self._name}", 1, 1)
