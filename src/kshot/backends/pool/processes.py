"""Workers that are processes of this machine: started anew, not forked, with pipes to this process."""

from __future__ import annotations

import os
import pickle
import queue
import select
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import IO, Any

from kshot.backends.pool.worker import (
    CloseJob,
    Died,
    Event,
    Job,
    Message,
    Placed,
    Raised,
    Report,
    WorkerLoop,
    packed_events,
)
from kshot.core.errors import BackendError
from kshot.core.visible import one_line

# ---- in the worker: messages come through its standard input, events go through its output ----

_LENGTH = struct.Struct(">Q")


def write_frame(stream: IO[bytes], body: bytes) -> None:
    """Write the length of a message, and the message."""
    stream.write(_LENGTH.pack(len(body)))
    stream.write(body)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Read one message; None at the end of the stream, also inside of a message that was never finished."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    return body if len(body) == length else None


def main(lifeline: int | None) -> None:
    """Run a worker until the run says so or is gone: then the pipe ``lifeline``, if there is one, ends."""
    if lifeline is not None:
        _start_guard(lifeline)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends its workers
    # What a model prints must not get between the events, and what it starts must not hold the pipes open.
    events, messages = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    job = read_frame(messages)
    if job is None:
        return
    loop = WorkerLoop(lambda found: _send(events, found))
    _send(events, [Placed(f"process {os.getpid()}")])
    threading.Thread(target=_receive, args=(messages, loop), name="kshot inbox", daemon=True).start()
    loop.run(lambda: pickle.loads(job))  # noqa: S301 - from the process that started this one


def _send(stream: IO[bytes], events: Sequence[Event]) -> None:
    with suppress(OSError):  # nobody reads it any more: the inbox sees the same
        write_frame(stream, packed_events(events))


def _receive(stream: IO[bytes], loop: WorkerLoop) -> None:
    while (body := read_frame(stream)) is not None:
        loop.receive(pickle.loads(body))  # noqa: S301 - as above
    leave()


def leave() -> None:
    """End this process and all that it started, whatever it is computing: the run is gone."""
    if hasattr(os, "killpg"):  # a worker leads a group of its own
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def _start_guard(lifeline: int) -> None:
    """Start a process that ends the whole group when the run is gone.

    The worker itself cannot: it may never let another thread run. Nor is it enough that the system kills the worker
    with the run, because the processes that its model has started would stay.
    """
    if os.fork():
        os.close(lifeline)
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):  # the run waits for the ends of these pipes
        os.dup2(nothing, descriptor)
    os.read(lifeline, 1)  # nothing is ever written
    leave()


# ---- in the run ----

_BOOT = (
    "import sys; sys.path[:] = sys.argv[2:]; from kshot.backends.pool.processes import main; "
    "main(int(sys.argv[1]) if sys.argv[1] else None)"
)
_CLOSE_SECONDS = 20.0
"""How long a worker that has nothing to do may take to close its model, before it is killed."""
_LAST_WORDS_BYTES = 2000
_READ_BYTES = 1 << 16
_POLL_MILLISECONDS = 500
_LAST_WORDS_SECONDS = 1.0
"""How long to wait for what a process that has ended has printed: another one may hold the pipe open."""
_CANNOT_START = (OSError, RuntimeError)
"""Too many open files, too many processes; RuntimeError: too many threads."""


class Processes:
    """Starts worker processes, each with an environment of its own."""

    def __init__(self, environments: Sequence[Mapping[str, str]]) -> None:
        """Take what each worker finds in its environment beside the variables of this process."""
        self._environments = environments
        self._workers: list[_WorkerProcess | None] = [None] * len(environments)
        self._job = b""
        self._report: Report = lambda _worker, _events: None
        self._lifeline: tuple[int, ...] = ()
        """Both ends of a pipe into which nothing is written: it ends with this process, and workers see that."""

    def start(self, job: Job, workers: int, report: Report, /) -> None:
        """Start the processes."""
        self._job, self._report = pickle.dumps(job, pickle.HIGHEST_PROTOCOL), report
        worker = 0
        try:
            self._lifeline = os.pipe() if hasattr(os, "fork") else ()
            for worker in range(workers):
                self._start(worker)
        except _CANNOT_START as exc:
            what = f"worker {worker + 1} of {workers} cannot be started: {exc}"
            hint = "Use fewer --workers, or raise the limits of the system (ulimit -n, ulimit -u)."
            raise BackendError(what, hint=hint) from exc

    def restart(self, worker: int, /) -> None:
        """Start a process again; that it cannot be started is one more death."""
        try:
            self._start(worker)
        except _CANNOT_START as exc:
            self._report(worker, [Died(f"it cannot be started: {exc}")])

    def _start(self, worker: int) -> None:
        self._workers[worker] = None
        environment, lifeline = self._environments[worker], self._lifeline[:1]
        self._workers[worker] = _WorkerProcess(worker, environment, self._job, self._report, lifeline)

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
            for end in self._lifeline:
                os.close(end)
            self._lifeline = ()


class _WorkerProcess:
    """One process, and the threads that write to it and read from it."""

    def __init__(
        self, number: int, environment: Mapping[str, str], job: bytes, report: Report, lifeline: Sequence[int]
    ) -> None:
        self._number, self._report = number, report
        self.outgoing: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._printed, self._killed = b"", False
        inherited = {name: value for name, value in os.environ.items() if name != "KSHOT_KILL_POINT"}
        self._process = subprocess.Popen(  # noqa: S603 - this very Python
            [sys.executable, "-c", _BOOT, "".join(map(str, lifeline)), *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**inherited, **environment},
            pass_fds=lifeline,
            start_new_session=True,  # Ctrl-C in a terminal goes to the run alone, and what a model starts ends with it
        )
        self._threads = [
            threading.Thread(target=target, name=f"kshot worker {number}", daemon=True, args=args)
            for target, args in ((self._write, (job,)), (self._read, ()))
        ]
        self._listener = threading.Thread(target=self._listen, name=f"kshot worker {number}", daemon=True)
        try:
            for thread in (self._listener, *self._threads):
                thread.start()
        except RuntimeError:
            self._kill_group()
            self._process.wait()
            raise

    def wait(self, seconds: float) -> None:
        """Wait until it ends by itself, for so long at most."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def kill(self) -> None:
        """End it and all that it started, wherever they are, and what reads from it."""
        self._report = lambda _worker, _events: None
        self._kill_group()
        self._process.wait()
        self._killed = True
        self.outgoing.put(None)
        for thread in (*self._threads, self._listener):
            thread.join(_CLOSE_SECONDS)

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
        self._killed = True
        self.outgoing.put(None)
        if not ended:
            self._report(self._number, [Died(_reason(code) + self._last_words())])

    def _listen(self) -> None:
        """Read what it prints, of which only the end is kept."""
        stream: Any = self._process.stderr
        with suppress(OSError), stream:
            while self._prints(stream) and (found := os.read(stream.fileno(), _READ_BYTES)):
                self._printed = (self._printed + found)[-_LAST_WORDS_BYTES:]

    def _prints(self, stream: Any) -> bool:
        """Wait until it prints something or has ended; a process that it started may hold the pipe for ever."""
        if not hasattr(select, "poll"):
            return True
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        while not poll.poll(_POLL_MILLISECONDS):
            if self._killed:
                return False
        return True

    def _last_words(self) -> str:
        """Return the last line that it printed."""
        self._listener.join(_LAST_WORDS_SECONDS)
        lines = [line for line in self._printed.decode("utf-8", "replace").splitlines() if line.strip()]
        return f"; its last line: {one_line(lines[-1].strip())}" if lines else ""


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
