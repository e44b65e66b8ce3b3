"""Signals that ask a command to end: Ctrl-C, SIGTERM and SIGHUP do the same.

The first one raises ``Stopped`` where the command is, which closes what is open and leaves with a message. A second one
leaves at once: the journal has every answer. When the command is done, a signal only shortens the end of the process.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_NAMES = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}
_WORDS = {getattr(signal, name): word for name, word in _NAMES.items() if hasattr(signal, name)}
_EXIT_CODE = 128
"""A process that a signal ends has this exit code plus the number of the signal, as shells have it: 130, 143, 129."""

_RETRY_SECONDS = 0.05


class Stopped(KeyboardInterrupt):
    """A signal asks the command to end; whatever handles Ctrl-C handles this, too."""

    def __init__(self, number: int) -> None:
        """Take the number of the signal."""
        super().__init__(stop_word(number))
        self.number = number


class _State:
    """What this process has been told. This module is imported before all others, so it imports little itself."""

    armed: bool = False
    received: int | None = None
    exit_code: int | None = None
    hook: Any = staticmethod(sys.__unraisablehook__)
    """What was called for exceptions that Python drops before signals raised any."""


_state = _State()


def stop_word(number: int) -> str:
    """Return what a signal did to the command."""
    return _WORDS.get(number, "stopped")


def stop_code(number: int) -> int:
    """Return the exit code of a command that a signal ended."""
    return _EXIT_CODE + number


def received() -> int | None:
    """Return the signal that asked the command to end; something may have turned ``Stopped`` into another error."""
    return _state.received


def done(code: int) -> None:
    """Say that the command is done. From now on a signal ends the process, with the exit code of the command."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # a stream may be closed, or not be there
            stream.flush()
    _state.exit_code = code


def leave() -> None:
    """If the command is done, end the process at once, without the handlers that run at exit."""
    if _state.exit_code is not None:
        os._exit(_state.exit_code)


def ignore() -> None:
    """Ignore signals in the last steps of the interpreter, where it would take our handlers away."""
    for number in _WORDS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def interruptible() -> Iterator[None]:
    """Have signals raise ``Stopped`` while the block runs, unless they do so already; one that is ignored stays so."""
    import threading

    if _state.armed or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = arm()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = _state.hook
        _state.armed, _state.received = False, None


def arm() -> dict[int, Any]:
    """Have signals raise ``Stopped`` from now on; return the handlers that they had."""
    _state.armed, _state.received = True, None
    _state.hook, sys.unraisablehook = sys.unraisablehook, _unraisable
    handlers = {number: signal.getsignal(number) for number in _WORDS}
    before = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, _handle)
    return before


def _handle(number: int, _frame: object) -> None:
    leave()
    if _state.received is not None:
        _leave(number)
    _state.received = number
    raise Stopped(number)


def _leave(number: int) -> None:
    """End the process without another step; the message goes past every buffer and lock."""
    with suppress(OSError):
        cursor = b"\x1b[?25h" if os.isatty(2) else b""  # a progress bar may have hidden it
        os.write(2, cursor + f"\nkshot: {stop_word(number)} again; it leaves at once\n".encode())
    os._exit(stop_code(number))


def _unraisable(unraisable: Any) -> None:
    """Send the signal again if it came where Python drops exceptions, as in a destructor."""
    if not isinstance(unraisable.exc_value, Stopped):
        _state.hook(unraisable)
        return
    import threading

    _state.received = None
    retry = threading.Timer(_RETRY_SECONDS, os.kill, (os.getpid(), unraisable.exc_value.number))
    retry.daemon = True
    retry.start()
