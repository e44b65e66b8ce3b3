"""What ``exec`` and ``eval`` mean in a dataset file of LLMBox.

Files hand them programs that a model wrote. None of it runs here: ``exec`` notes a program; ``eval`` has the sandbox
run it, and gives the value of an expression after it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kshot.cleanups.literals import NO_VALUE, literal
from kshot.core.errors import DataError, KshotError
from kshot.sandbox import program as sandbox

_HINT = "kshot runs programs of a model apart: exec(TEXT), then eval(TEXT), which gives plain data."


class Refusals:
    """What kshot refused while code of a file ran."""

    def __init__(self) -> None:
        self.errors: list[KshotError] = []


class _Noted(threading.local):
    """The program that a thread gave ``exec`` last, and the file whose ``eval`` has not asked for a value of it."""

    program = ""
    waiting: Path | None = None


_NOTED = _Noted()
_OPEN: list[Refusals] = []
"""Those of all code that runs now: a file may start threads, so any of it may be the one that is refused."""


@contextmanager
def refusals_raised() -> Iterator[None]:
    """Raise at the end of a block what was refused within: a bare ``except`` of the file may have caught it."""
    kept, outside = Refusals(), (_NOTED.program, _NOTED.waiting)
    _NOTED.program, _NOTED.waiting = "", None
    _OPEN.append(kept)
    try:
        yield
        _refuse_waiting()
    except Exception:
        if not kept.errors:
            raise
    finally:
        _OPEN.remove(kept)
        _NOTED.program, _NOTED.waiting = outside
    if kept.errors:
        raise kept.errors[0]


def answers(file: Path) -> dict[str, Any]:
    """Return the ``exec`` and ``eval`` of a file."""

    def note(source: Any, /, *given: Any, **more: Any) -> None:
        """Note a program, in place of the one before it."""
        _refuse_waiting()
        _NOTED.program, _NOTED.waiting = _text(file, "exec", source, *given, *more.values()), file

    def value(expression: Any, /, *given: Any, **more: Any) -> Any:
        """Return the value of an expression after the noted program; a literal needs no process."""
        if _NOTED.waiting is None and isinstance(expression, str):
            try:
                return literal(expression)
            except NO_VALUE:
                pass  # it has to be run
        text, _NOTED.waiting = _text(file, "eval", expression, *given, *more.values()), None
        try:
            return sandbox.value_of(_NOTED.program, text, unsafe=sandbox.unsafe_allowed())
        except KshotError as error:
            raise _kept(error) from None

    return {"exec": note, "eval": value}


def _text(file: Path, name: str, source: Any, *given: Any) -> str:
    """Return what ``exec`` or ``eval`` is given, if it is a text and nothing else."""
    if any(each is not None for each in given):
        raise _refused(file, f"it calls {name} with variables of its own, which a program of a model must not reach")
    if not isinstance(source, str):
        raise _refused(file, f"it calls {name} with {type(source).__name__} in place of a text")
    return source


def _refuse_waiting() -> None:
    """Refuse a program whose value nothing asked for: whether it works would not be known."""
    file, _NOTED.waiting = _NOTED.waiting, None
    if file is not None:
        raise _refused(file, "it calls exec and then no eval, so the program would not run")


def _refused(file: Path, what: str) -> KshotError:
    return _kept(DataError(what, where=str(file), hint=_HINT))


def _kept(error: KshotError) -> KshotError:
    for each in _OPEN:
        each.errors.append(error)
    return error
