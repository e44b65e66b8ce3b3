"""Loggers by name: wandb, mlflow,experiment=nightly, mine.py:Mine; an error of one does not reach the run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, TypeGuard, cast

from kshot.core import interrupts
from kshot.core.errors import KshotError, UsageError
from kshot.core.extras import require_all
from kshot.core.registry import Entry, Registry
from kshot.core.shareable import without_secrets
from kshot.core.specs import parse_spec
from kshot.core.visible import one_line
from kshot.core.watcher import PassingWatcher, RunEnd, Watcher

_MOST_CHARACTERS = 300
"""Of an error in a note: a server may answer with a whole page."""


_GOES_ON = "logging stops, the run goes on"


class _Printing:
    """Sends to stderr what loggers print. Several may print at once: the last one puts stdout back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._stdout: TextIO | None = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._count:
                self._stdout, sys.stdout = sys.stdout, sys.stderr
            self._count += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                sys.stdout = cast("TextIO", self._stdout)


PRINTING_TO_STDERR = _Printing()
"""While a logger is called: stdout may hold JSON that a program reads, or have no reader any more."""


def _passed(event: str) -> Any:
    """Return the method that passes an event on."""

    def passing(self: GuardedLogger, *given: Any, **options: Any) -> None:
        self._pass(lambda: getattr(self.behind, event)(*given, **options))

    return passing


class GuardedLogger(PassingWatcher):
    """Passes everything on to a logger, until the logger raises an error.

    What it says of its own set-up when the run starts (a ``KshotError``) is an error of the run: nothing is asked yet.
    """

    def __init__(self, logger: Watcher, name: str) -> None:
        """Take the logger, and the name that the note has."""
        super().__init__(logger)
        self._name = name
        self._shown: Watcher | None = None
        self._works = True
        self.notes: list[str] = []

    def show_on(self, watcher: Watcher) -> None:
        """Show on this watcher what the run waits for, and the note about an error."""
        self._shown = watcher

    def started(self, settings: Mapping[str, Any], path: Path | None) -> None:
        """Pass it on; an error of the set-up is raised."""
        try:
            with self._waited_for(), PRINTING_TO_STDERR:
                self.behind.started(settings, path)
        except KshotError:
            self._works = False
            raise
        except (Exception, SystemExit) as exc:  # noqa: BLE001 - a tool may raise anything
            self._stop(exc)

    planned = _passed("planned")
    begin = _passed("begin")
    answered = _passed("answered")
    scored = _passed("scored")
    finished = _passed("finished")
    ended = _passed("ended")
    note = _passed("note")
    step = _passed("step")

    def closed(self, state: RunEnd, error: BaseException | None) -> None:
        """Pass it on, also after an error: what the logger has opened is to be closed."""
        with self._waited_for():
            if self._works:
                self._pass(lambda: self.behind.closed(state, error), "the last of it may not be logged")
            else:
                with suppress(Exception, SystemExit), PRINTING_TO_STDERR:
                    self.behind.closed(state, error)

    def _pass(self, call: Callable[[], None], then: str = _GOES_ON) -> None:
        if not self._works:
            return
        try:
            with PRINTING_TO_STDERR:
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


LOGGERS = Registry(
    "loggers",
    "logger",
    [
        Entry(
            "wandb",
            "kshot.loggers.wandb:WandbLogger",
            "Weights & Biases, on its server or offline (project, entity, name, group, mode, dir, samples).",
            packages=("wandb",),
        ),
        Entry(
            "mlflow",
            "kshot.loggers.mlflow:MlflowLogger",
            "MLflow, on a server or in a local folder (tracking_uri, experiment, name, samples).",
            packages=("mlflow-skinny",),
        ),
        Entry(
            "trackio",
            "kshot.loggers.trackio:TrackioLogger",
            "Trackio, on this machine or in a space of the hub (project, name, group, space_id, samples).",
            packages=("trackio",),
        ),
    ],
    accepts=lambda found: isinstance(found, type) and Watcher in found.__mro__,
)


def named_loggers(log: Any) -> list[Any]:
    """Return the loggers that a user names, each once: None, a spec, a watcher, or a list of them."""
    given = list(log) if isinstance(log, (list, tuple)) else [] if log is None else [log]
    for each in given:
        if not isinstance(each, str) and not _is_watcher(each):
            hint = 'Name one, such as "wandb" or "file.py:Class", or give an object of a class that inherits Watcher.'
            raise UsageError(f"log is {each!r:.60}, which is no logger", hint=hint)
    return [each for at, each in enumerate(given) if not any(each is one or each == one for one in given[:at])]


def logger_packages(log: Any) -> dict[str, tuple[str, ...]]:
    """Return the packages of kshot's extras that each logger needs, by its name."""
    specs = [parse_spec(each) for each in named_loggers(log) if isinstance(each, str)]
    return {spec.name: LOGGERS.packages(spec) for spec in specs}


def make_loggers(log: Any) -> list[GuardedLogger]:
    """Make the loggers that a user names."""
    require_all(logger_packages(log))
    return [make_logger(each) for each in named_loggers(log)]


def make_logger(logger: Any) -> GuardedLogger:
    """Make the logger that a spec names. Nothing is sent or written before the run starts."""
    if not isinstance(logger, str):
        return GuardedLogger(logger, type(logger).__name__)
    try:
        with PRINTING_TO_STDERR:  # also what a file of the user prints when it is imported
            made = LOGGERS.make(logger)
    except KshotError as exc:
        exc.where, exc.what = without_secrets([exc.where, exc.what])  # an address may hold a password
        raise
    if not _is_watcher(made):
        raise UsageError("it is no logger", where=logger, hint="A logger is a class that inherits kshot.Watcher.")
    return GuardedLogger(made, parse_spec(logger).name or type(made).__name__)


def _is_watcher(found: Any) -> TypeGuard[Watcher]:
    """Whether an object inherits from ``Watcher``: the run calls every method of it."""
    return Watcher in type(found).__mro__
