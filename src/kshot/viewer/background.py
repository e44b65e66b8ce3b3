"""Work in a thread that says how far it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

from kshot.core.errors import KshotError, RunError

T = TypeVar("T")

Progress: TypeAlias = Callable[[float], None]
"""Takes the share of the work that is done, from 0 to 1; it raises ``Abandoned`` if nobody wants the result."""


class Abandoned(Exception):  # noqa: N818 - it is no error
    """The work has been given up, or what it reads was put away; who still wants it asks again."""


class Background(Generic[T]):
    """One piece of work, which starts at once; all methods may be called from any thread."""

    def __init__(self, work: Callable[[Progress], T], name: str) -> None:
        """Start the work in a thread of this name."""
        self.share, self.ended = 0.0, 0.0
        self._work = work
        self._result: T | None = None
        self._error: KshotError | None = None
        self.is_given_up = False
        self._done, self._abandoned = threading.Event(), threading.Event()
        threading.Thread(target=self._run, name=f"kshot {name}", daemon=True).start()

    @property
    def is_done(self) -> bool:
        """Whether there is a result or an error."""
        return self._done.is_set()

    @property
    def error(self) -> KshotError | None:
        """The error that ended the work; None if there is none, or not yet."""
        return self._error

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the work is done, at most this long; return whether it is."""
        return self._done.wait(seconds)

    def result(self) -> T:
        """Wait for the result, and return it; raise the error that ended the work, or ``Abandoned``."""
        self._done.wait()
        if self.is_given_up:
            raise Abandoned
        if self._error is not None:
            raise type(self._error)(self._error.what, where=self._error.where, hint=self._error.hint)
        return self._result  # type: ignore[return-value]  # it is there, since the work is done without an error

    def abandon(self) -> None:
        """Ask the work to end early."""
        self._abandoned.set()

    def _progress(self, share: float) -> None:
        if self._abandoned.is_set():
            raise Abandoned
        self.share = min(share, 1.0)

    def _run(self) -> None:
        try:
            self._result = self._work(self._progress)
            self.share = 1.0
        except KshotError as exc:
            self._error = exc.with_traceback(None)
        except Abandoned:
            self.is_given_up = True
        except Exception as exc:  # noqa: BLE001 - nothing stands above a thread: those that wait get the error
            self._error = RunError(f"{type(exc).__name__}: {exc}")
        finally:
            self.ended = time.monotonic()
            self._done.set()
