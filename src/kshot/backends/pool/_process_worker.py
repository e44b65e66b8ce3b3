"""A worker process: messages come through its standard input, events go through what was its standard output."""

from __future__ import annotations

import os
import pickle
import signal
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from kshot.backends.pool.contract import Event, Placed
from kshot.backends.pool.worker import WorkerLoop, packed_events

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
