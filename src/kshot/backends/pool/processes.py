"""Workers that are processes of this machine: started anew, not forked, with pipes to this process."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import IO, Any

from kshot.backends.pool._process_worker import read_frame, write_frame
from kshot.backends.pool.contract import CloseJob, Died, Event, Job, Message, Raised, Report
from kshot.core.errors import BackendError
from kshot.core.visible import one_line

_BOOT = (
    "import sys; sys.path[:] = sys.argv[2:]; from kshot.backends.pool._process_worker import main; "
    "main(int(sys.argv[1]))"
)
_CLOSE_SECONDS = 20.0
"""How long a worker that has nothing to do may take to close its model, before it is killed."""
_LAST_WORDS_BYTES = 2000


class Processes:
    """Starts worker processes, each with an environment of its own."""

    def __init__(self, environments: Sequence[Mapping[str, str]]) -> None:
        """Take what each worker finds in its environment beside the variables of this process."""
        self._environments = environments
        self._workers: list[_WorkerProcess | None] = [None] * len(environments)
        self._job = b""
        self._report: Report = lambda _worker, _events: None

    def start(self, job: Job, workers: int, report: Report, /) -> None:
        """Start the processes."""
        self._job, self._report = pickle.dumps(job, pickle.HIGHEST_PROTOCOL), report
        for worker in range(workers):
            self.restart(worker)

    def restart(self, worker: int, /) -> None:
        """Start a process."""
        self._workers[worker] = _WorkerProcess(worker, self._environments[worker], self._job, self._report)

    def send(self, worker: int, message: Message, /) -> None:
        """Send a message, from a thread: a pipe may be full."""
        if (process := self._workers[worker]) is not None:
            process.outgoing.put(message)

    def close(self, idle: Collection[int], /) -> None:
        """End the processes; one that has nothing to do closes its model first."""
        living = [process for process in self._workers if process is not None]
        closing = [process for number in idle if (process := self._workers[number]) is not None]
        until = monotonic() + _CLOSE_SECONDS
        try:
            for process in closing:
                process.outgoing.put(CloseJob())
            for process in closing:
                process.wait(max(0.0, until - monotonic()))
        finally:  # also after Ctrl-C
            for process in living:
                process.kill()
            self._workers = [None] * len(self._workers)


class _WorkerProcess:
    """One process, and the threads that write to it and read from it."""

    def __init__(self, number: int, environment: Mapping[str, str], job: bytes, report: Report) -> None:
        self._number, self._report = number, report
        self.outgoing: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process lives
        inherited = {name: value for name, value in os.environ.items() if name != "KSHOT_KILL_POINT"}
        self._process = subprocess.Popen(  # noqa: S603 - this very Python
            [sys.executable, "-c", _BOOT, str(os.getpid()), *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            env={**inherited, **environment},
            start_new_session=True,  # Ctrl-C in a terminal goes to the run alone, and what a model starts ends with it
        )
        self._threads = [
            threading.Thread(target=target, name=f"kshot worker {number}", daemon=True, args=args)
            for target, args in ((self._write, (job,)), (self._read, ()))
        ]
        for thread in self._threads:
            thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until it ends by itself, for so long at most."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def kill(self) -> None:
        """End it and all that it started, wherever they are, and what reads from it."""
        self._report = lambda _worker, _events: None
        self._kill_group()
        self._process.wait()
        self.outgoing.put(None)
        for thread in self._threads:
            thread.join(_CLOSE_SECONDS)
        self._printed.close()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    def _write(self, job: bytes) -> None:
        stream: Any = self._process.stdin
        with suppress(OSError, ValueError):  # it is gone, which the other thread sees
            write_frame(stream, job)
            while (message := self.outgoing.get()) is not None:
                write_frame(stream, pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
        with suppress(OSError):
            stream.close()

    def _read(self) -> None:
        stream: Any = self._process.stdout
        ended = False
        while (body := read_frame(stream)) is not None:
            events = _unpacked(body)
            ended |= any(isinstance(event, Raised) for event in events)
            self._report(self._number, events)
        stream.close()
        self._kill_group()  # its own children may have outlived it
        code = self._process.wait()
        self.outgoing.put(None)
        if not ended:
            self._report(self._number, [Died(_reason(code) + self._last_words())])

    def _last_words(self) -> str:
        """Return the last line that it printed."""
        with suppress(OSError, ValueError):
            size = os.fstat(self._printed.fileno()).st_size
            tail = os.pread(self._printed.fileno(), _LAST_WORDS_BYTES, max(0, size - _LAST_WORDS_BYTES))
            lines = [line for line in tail.decode("utf-8", "replace").splitlines() if line.strip()]
            return f"; its last line: {one_line(lines[-1].strip())}" if lines else ""
        return ""


def _unpacked(body: bytes) -> list[Event]:
    try:
        found: list[Event] = pickle.loads(body)  # noqa: S301 - from a process that this one started
    except Exception as exc:  # noqa: BLE001 - an answer of a plug-in may be of any class
        return [Raised(BackendError, f"an answer cannot be read: {type(exc).__name__}: {exc}", "", "")]
    return found


def _reason(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"it was killed by {name}{', as by a system that is out of memory' if name == 'SIGKILL' else ''}"
