"""Values that a config writes, checked where they are read: each of another kind is one message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from kshot.core.errors import DataError

MAX_REPEATS = 10_000
"""The most replies that a config may ask for each row."""
_MAX_TOKENS = 100_000_000


def _refuse(value: Any, name: str, wanted: str, where: str) -> NoReturn:
    try:
        shown = f"{value!r:.60}"
    except ValueError:  # a whole number with thousands of digits
        shown = "a number of thousands of digits"
    raise DataError(f"{name} is {shown}; it must be {wanted}", where=where)


def repeats(value: Any, name: str, where: str) -> int:
    """Return how often each row is asked: a whole number from 1 to ``MAX_REPEATS``."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_REPEATS:
        _refuse(value, name, f"a whole number from 1 to {MAX_REPEATS:,}", where)
    return value


def whole_numbers(value: Any, name: str, where: str) -> list[int]:
    """Return a whole number, or a list of them; None is an empty list."""
    found = [] if value is None else [value] if isinstance(value, int) else value
    if not isinstance(found, (list, tuple)) or not all(type(each) is int for each in found):
        _refuse(value, name, "a whole number or a list of them", where)
    return list(found)


def tokens(value: Any, name: str, where: str) -> int:
    """Return a number of tokens."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value <= _MAX_TOKENS:
        _refuse(value, name, f"a number of tokens, from 1 to {_MAX_TOKENS:,}", where)
    return int(value)


def texts(value: Any, name: str, where: str) -> list[str]:
    """Return texts: a list of them, or a lone one; None is an empty list."""
    if value is None or isinstance(value, str):
        return [value] if value else []
    if not isinstance(value, (list, tuple)):
        _refuse(value, name, "a list of texts", where)
    return [str(each) for each in value]


def text(config: Mapping[str, Any], name: str, default: str, where: str = "") -> str:
    """Return a value of a dict that must be text, if it is there."""
    value = config.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        _refuse(value, name, "text", where)
    return value


def listed(value: Any, name: str, where: str = "") -> tuple[Any, ...] | None:
    """Return the elements of a list; None is None."""
    if value is not None and not isinstance(value, Iterable):
        _refuse(value, name, "a list", where)
    return None if value is None else tuple(value)
