"""Ctrl-C while an event loop runs in the main thread: it stops the loop between two callbacks.

Inside a callback, a KeyboardInterrupt would leave the HTTP library in an undefined state.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_open_blocks = 0
_running_loop: asyncio.AbstractEventLoop | None = None
"""The loop that runs in the main thread, which is where Python handles signals."""
_interrupted = False


@contextmanager
def stopping_loops() -> Iterator[None]:
    """Have Ctrl-C stop a running loop in this block; between loops it raises KeyboardInterrupt as always.

    The block changes nothing outside the main thread, or if the user has set a handler for SIGINT.
    """
    global _open_blocks  # noqa: PLW0603 - a process has one handler for Ctrl-C
    if not _in_main_thread():
        yield
        return
    _open_blocks += 1
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _handle_interrupt)
    try:
        yield
    finally:
        _open_blocks -= 1
        if not _open_blocks and _in_main_thread() and signal.getsignal(signal.SIGINT) is _handle_interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def running(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Name the loop that runs in this block; raise KeyboardInterrupt at its end if Ctrl-C has stopped the loop."""
    global _running_loop, _interrupted  # noqa: PLW0603 - the signal handler reads them
    if not _in_main_thread():
        yield
        return
    _interrupted, _running_loop = False, loop
    try:
        yield
    finally:
        _running_loop = None
    if _interrupted:
        raise KeyboardInterrupt


def _handle_interrupt(*_: object) -> None:
    global _interrupted  # noqa: PLW0603 - ``running`` reads it
    if _running_loop is None:
        raise KeyboardInterrupt
    _interrupted = True
    _running_loop.call_soon_threadsafe(_running_loop.stop)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _reset_after_fork() -> None:
    """Forget the blocks and the loop of the parent process."""
    global _open_blocks, _running_loop
    _open_blocks, _running_loop = 0, None


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_reset_after_fork)
