"""A confined process that is kept for many requests: started when first needed, and anew after it was killed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from kshot.core.errors import DataError
from kshot.sandbox.profiles import Profile
from kshot.sandbox.request_process import NoAnswer, RequestFailed, RequestProcess

WALL_SECONDS = 60.0
"""How long a request may take on a machine that is busy with other things; the worker counts processor time."""
START = {"start": True}
"""The request by which a worker shows that it works; see ``sandbox._serving``."""
NOT_CONFINED, TOO_SLOW, OUT_OF_MEMORY = "NotConfinedError", "TooSlow", "MemoryError"
"""Kinds of faults: the system cannot confine the worker; a request took too much time, or memory."""
_START_HINT = "Free memory or processes of this machine, and run the command again: what is done is kept."
_CONFINE_HINT = "Use Linux 6.2 or later with seccomp and Landlock."


class KeptProcess:
    """One process for all threads; a request that it does not survive, or that takes too much, ends it."""

    def __init__(self, start: Callable[[], RequestProcess]) -> None:
        """Take the function that starts the process; nothing is started yet."""
        self._start = start
        self._lock = threading.Lock()
        self._process: RequestProcess | None = None

    def ask(self, request: Mapping[str, Any]) -> Any:
        """Return the result of a request, or raise ``RequestFailed`` or ``NoAnswer``."""
        with self._lock:
            if self._process is None or not self._process.alive:
                self._end()
                self._process = self._start()
            try:
                return self._process.ask(request, WALL_SECONDS)
            except NoAnswer:
                self._end()
                raise
            except RequestFailed as exc:
                if exc.kind in (TOO_SLOW, OUT_OF_MEMORY):
                    self._end()
                raise

    def close(self) -> None:
        """End the process; the next request starts another."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()


def started(profile: Profile, worker: str, job: Mapping[str, Any], *, work: str, hint: str = "") -> RequestProcess:
    """Start a worker. That it cannot start is no fault of any request, and an error of the run.

    ``work`` says what the process does: "the process that WORK cannot start".
    """
    process = None
    try:
        process = RequestProcess(profile, worker, job, serve=lambda _: {"refused": "files"})
        process.ask(START, WALL_SECONDS)
    except (OSError, NoAnswer, RequestFailed) as exc:
        if process is not None:
            process.end()
        if isinstance(exc, RequestFailed) and exc.kind == NOT_CONFINED:
            what = f"this system cannot confine the process that {work}: it lacks {exc.message}"
            raise DataError(what, hint=_CONFINE_HINT) from exc
        raise DataError(f"the process that {work} cannot start: {exc}", hint=hint or _START_HINT) from exc
    return process
