"""The one way to the terminal: whatever a command, a library or the interpreter prints is made visible here."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from typing import Any, TextIO, cast

from kshot.core.errors import KshotError
from kshot.core.visible import one_line, visible, visible_json

_NAMES = ("stdout", "stderr")
_STDOUT, _STDERR = 1, 2


class OutputError(KshotError):
    """The output cannot be written, as to a file on a full disk."""


class _Checked:
    """A stream whose own errors cannot be taken for others: on stdout one message, on stderr none, for it has no place.

    A reader who closes the pipe is not an error.
    """

    def __init__(self, stream: TextIO, *, needed: bool) -> None:
        self._stream, self._needed = stream, needed

    def write(self, text: str) -> int:
        with self._checked():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._checked():
            self._stream.flush()

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as exc:
            if self._needed:
                raise OutputError(f"the output cannot be written: {exc.strerror or exc}") from exc

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class SafeStream:
    """A text stream that writes every unsafe character as its escape; all else is done by the stream behind it."""

    def __init__(self, stream: TextIO) -> None:
        self.behind = stream

    def write(self, text: str) -> int:
        """Write the text as it may be seen."""
        self.behind.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Return what the stream behind has, such as ``isatty`` and ``encoding``."""
        return getattr(self.behind, name)


def protect() -> None:
    """Make stdout and stderr safe for the rest of this process: threads and the interpreter print after a command."""
    for name in _NAMES:
        stream = getattr(sys, name)
        if isinstance(stream, SafeStream):
            continue
        if stream is None:  # it was closed before this process began; what is written there is for nobody
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - it stays open as stdout does
        if isinstance(stream, io.TextIOWrapper):  # neither a lone surrogate nor an ASCII terminal may end a run
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, SafeStream(cast("TextIO", _Checked(stream, needed=name == "stdout"))))


@contextmanager
def protected() -> Iterator[None]:
    """Make stdout and stderr safe until the block ends."""
    before = [getattr(sys, name) for name in _NAMES]
    protect()
    try:
        yield
    finally:
        for name, stream in zip(_NAMES, before, strict=True):
            setattr(sys, name, stream)


def unprotected(stream: TextIO) -> TextIO:
    """Return the stream behind a safe one, for ``Screen``, which makes texts safe before it adds its own colours."""
    return stream.behind if isinstance(stream, SafeStream) else stream


@contextmanager
def flushed() -> Iterator[None]:
    """Write what stdout has kept back when the block ends, while an error can still be told."""
    try:
        yield
    except SystemExit:  # after --help
        _flush()
        raise
    _flush()


@contextmanager
def results_apart() -> Iterator[None]:
    """Keep stdout for the results that follow: what others print until the block ends goes to stderr.

    That is so for models, datasets and loggers of the user, for libraries in C, and for the processes that they start.
    """
    _flush()
    with ExitStack() as stack:
        with suppress(OSError):  # one of the two was closed before this process began
            kept = os.dup(_STDOUT)
            stack.callback(os.close, kept)
            os.dup2(_STDERR, _STDOUT)
            stack.callback(os.dup2, kept, _STDOUT)
        stack.enter_context(redirect_stdout(sys.stderr))
        yield


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def drop_output() -> None:
    """Throw away what stdout has kept back and cannot write: the interpreter would try again."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show(text: object = "") -> None:
    """Print a result, which may have several lines."""
    print(visible(str(text)))


def show_json(value: Any, indent: int | None = None) -> None:
    """Print JSON, from which a program reads the exact texts."""
    show(visible_json(value, indent))


def say(text: object, stream: TextIO | None = None) -> None:
    """Print a message to the user: one line on stderr, or on the stream that was stderr when somebody began to talk."""
    print(f"kshot: {one_line(text)}", file=sys.stderr if stream is None else stream)
