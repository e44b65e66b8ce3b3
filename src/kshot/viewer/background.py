"""Long work of a viewer: in a thread that says how far it is, or in a process that gives the memory back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from kshot.core.errors import KshotError, RunError
from kshot.core.visible import one_line

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
        self.error: KshotError | None = None
        """The error that ended the work; None if there is none, or not yet."""
        self.is_given_up = False
        self._done, self._abandoned = threading.Event(), threading.Event()
        threading.Thread(target=self._run, name=f"kshot {name}", daemon=True).start()

    @property
    def is_done(self) -> bool:
        """Whether there is a result or an error."""
        return self._done.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the work is done, at most this long; return whether it is."""
        return self._done.wait(seconds)

    def result(self) -> T:
        """Wait for the result, and return it; raise the error that ended the work, or ``Abandoned``."""
        self._done.wait()
        if self.is_given_up:
            raise Abandoned
        if self.error is not None:
            raise type(self.error)(self.error.what, where=self.error.where, hint=self.error.hint)
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
            self.error = exc.with_traceback(None)
        except Abandoned:
            self.is_given_up = True
        except Exception as exc:  # noqa: BLE001 - nothing stands above a thread: those that wait get the error
            self.error = RunError(f"{type(exc).__name__}: {exc}")
        finally:
            self.ended = time.monotonic()
            self._done.set()


_KEPT = 32
_MAX_WORDS = 300
_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from kshot.viewer._job_process import main; main()"
"""Gives the process the search path of this one, before anything is imported: the folder that it starts in may be that
of a run, and nothing there is code."""

JobName: TypeAlias = tuple[str, ...]


@dataclass(slots=True)
class _Job:
    """What is to be done, of which versions of the files, and what was found; None: it is not done yet."""

    version: object
    work: Mapping[str, Any]
    found: dict[str, Any] | None = None


class Jobs:
    """Does one job at a time, the last that was asked for first; results are kept until the version is another."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Start with none; the thread starts with the first. ``tell`` says in the terminal why a process died."""
        self._tell = tell
        self._jobs: OrderedDict[JobName, _Job] = OrderedDict()
        self._changed = threading.Condition()
        self._waiting: list[_Job] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def of(self, name: JobName, version: object, work: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what a job found, {"error": …} if it failed, or None: it is being done."""
        with self._changed:
            job = self._jobs.get(name)
            if job is None or job.version != version:
                self._waiting = [each for each in self._waiting if each is not job]
                job = self._jobs[name] = _Job(version, work)
                self._waiting.append(job)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="kshot view jobs", daemon=True)
                    self._thread.start()
                self._changed.notify_all()
            self._jobs.move_to_end(name)
            while len(self._jobs) > _KEPT:
                self._jobs.popitem(last=False)
        return job.found

    def close(self) -> None:
        """End the process that works."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            process = self._process
        if process is not None:
            with suppress(OSError):
                process.kill()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                job = self._waiting.pop()
            found = self._done(job)
            with self._changed:
                job.found = found
                self._changed.notify_all()

    def _done(self, job: _Job) -> dict[str, Any]:
        command = [sys.executable, "-c", _BOOT, *(each for each in sys.path if each)]
        try:
            with self._changed:
                if self._closed:
                    return {"error": "the viewer has ended"}
                process = self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
                )
            output, words = process.communicate(json.dumps(job.work).encode())
        except (OSError, ValueError) as exc:  # no process can be started
            return {"error": f"no process can be started: {exc}"}
        try:
            found = json.loads(output)
        except ValueError:
            found = None
        return found if isinstance(found, dict) else {"error": self._death(process.returncode, words)}

    def _death(self, code: int, words: bytes) -> str:
        """Say how a process ended that brought nothing, and its last words; closing the viewer kills it."""
        lines = words.decode("utf-8", "replace").strip().splitlines()
        last = f": {one_line(lines[-1][:_MAX_WORDS])}" if lines else ""
        why = f"the process that reads the samples {_ended(code)}{last}"
        if not self._closed:
            self._tell(why)
        return why


def _ended(code: int) -> str:
    """Return how a process ended; a negative code is a signal."""
    if code >= 0:
        return f"ended with code {code}"
    name = next((each.name for each in signal.Signals if each == -code), f"signal {-code}")
    return f"was ended by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")
