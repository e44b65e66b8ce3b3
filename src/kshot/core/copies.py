"""Copies that other code may change: what it does to them does not reach the original."""

from __future__ import annotations

from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

_T = TypeVar("_T")
_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})


def own_copy(value: _T) -> _T:
    """Return a value whose dicts, lists, sets and records are copies at every depth.

    Other objects, such as images, are the same: many of them are large, and some cannot be copied.
    """
    copied: Any = _copied(value)
    return copied  # type: ignore[no-any-return]  # it has the type of the value


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        return {key: each if type(each) in _PLAIN else _copied(each) for key, each in value.items()}
    if kind is list or kind is tuple:
        return kind(each if type(each) in _PLAIN else _copied(each) for each in value)
    return _copy_of_object(value)


def _copy_of_object(value: Any) -> Any:
    made = value
    if isinstance(value, dict):
        made = _shallow(value)
        made.update((key, _copied(each)) for key, each in value.items())
    elif isinstance(value, (list, set, bytearray)):
        made = _shallow(value)
    elif is_dataclass(value) and not isinstance(value, type):
        made = _shallow(value)
        for field in fields(value):
            object.__setattr__(made, field.name, _copied(getattr(value, field.name)))
    return made


def _shallow(value: Any) -> Any:
    try:
        return copy(value)
    except Exception:  # noqa: BLE001 - a class of the user may raise anything
        return value
