"""Checks of what scripts pass to the Python functions: a wrong type is one message that says what it must be."""

from __future__ import annotations

import os
from collections.abc import Iterable
from numbers import Real
from pathlib import Path
from typing import Any

from kshot.core.errors import UsageError


def checked_folder(name: str, value: Any) -> Path:
    """Return a folder, with ``~`` read as the home of the user."""
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise _wrong(name, value, "a folder, as a text or a path")
    if "\0" in os.fspath(value):
        raise _wrong(name, value, "a folder, and no name of one has a NUL")
    try:
        return Path(value).expanduser()
    except RuntimeError as exc:
        raise UsageError("there is no such home folder", where=os.fspath(value), hint="Write the whole path.") from exc


def checked_flag(name: str, value: Any) -> bool:
    """Return a value that is true or false: a text such as "no" would count as true."""
    if not isinstance(value, bool):
        raise _wrong(name, value, "True or False")
    return value


def checked_text(name: str, value: Any) -> str | None:
    """Return a text; None stays None."""
    if value is not None and not isinstance(value, str):
        raise _wrong(name, value, "a text")
    return value


def checked_texts(name: str, value: Any) -> tuple[str, ...]:
    """Return one text or several as a tuple."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Iterable):
        raise _wrong(name, value, "a text, or several in a list")
    found = tuple(value)
    for each in found:
        if not isinstance(each, str):
            raise _wrong(f"one {name}", each, "a text")
    return found


def checked_number(name: str, value: Any) -> float | None:
    """Return a number; None stays None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or value != value:  # noqa: PLR0124 - nan is not equal to itself
        raise _wrong(name, value, "a number")
    return value  # type: ignore[return-value]  # numbers of numpy are real ones, too


def _wrong(name: str, value: Any, kind: str) -> UsageError:
    return UsageError(f"{name} is {value!r:.60}; it must be {kind}")
