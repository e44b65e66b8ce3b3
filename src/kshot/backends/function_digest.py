"""A digest of everything that decides what a function returns: its code, and the values that it was made with."""

from __future__ import annotations

import hashlib
import inspect
import pickle
import secrets
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import Any, TypeAlias

Seen: TypeAlias = dict[int, tuple[int, Any]]
"""The objects that were described, by id, with their numbers; they stay alive, so that no id is used twice."""


def function_digest(function: Callable[..., Any]) -> str:
    """Return the digest: the same in every process, and another one for a function that may answer differently."""
    described = repr(_description(function, {}))
    return hashlib.blake2b(described.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _description(value: Any, seen: Seen) -> Any:
    """Describe a value by plain values; an object that refers to itself is described once."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return [type(value).__name__, value]
    if id(value) in seen:
        return ["seen", seen[id(value)][0]]
    seen[id(value)] = len(seen), value
    if isinstance(value, (FunctionType, MethodType, BuiltinFunctionType, partial)):
        return _callable(value, seen)
    return [type(value).__name__, *_items(value, seen)] if isinstance(value, _CONTAINERS) else _object(value, seen)


_CONTAINERS = (list, tuple, set, frozenset, dict)


def _items(value: Any, seen: Seen) -> list[Any]:
    match value:
        case set() | frozenset():
            return sorted(repr(_description(each, seen)) for each in value)
        case dict():
            return [(_description(key, seen), _description(each, seen)) for key, each in value.items()]
    return [_description(each, seen) for each in value]


def _callable(value: FunctionType | MethodType | BuiltinFunctionType | partial[Any], seen: Seen) -> list[Any]:
    match value:
        case partial():
            return ["partial", *(_description(each, seen) for each in (value.func, value.args, value.keywords))]
        case MethodType():
            return ["method", _description(value.__func__, seen), _description(value.__self__, seen)]
        case BuiltinFunctionType():
            return ["built in", value.__module__, value.__qualname__]
        case FunctionType():
            cells = [_contents(cell) for cell in value.__closure__ or ()]
            made_with = (cells, value.__defaults__, value.__kwdefaults__, vars(value))
            # two lambdas may stand on one line, and then have the same source
            code = _code(value, seen) if value.__name__ == "<lambda>" else None
            return [value.__qualname__, _source(value, seen), code, *(_description(each, seen) for each in made_with)]


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value yet
        return None


def _object(value: Any, seen: Seen) -> list[Any]:
    """Describe a class, or an object by its class and state; one that shows no state is like no other."""
    if isinstance(value, type):
        return ["class", value.__qualname__, _source(value, seen)]
    slots = [name for cls in type(value).__mro__ for name in vars(cls).get("__slots__", ())]
    state = {name: getattr(value, name) for name in slots if hasattr(value, name)}  # a slot may be empty
    if hasattr(value, "__dict__") or state:
        own = {**(vars(value) if hasattr(value, "__dict__") else {}), **state}
        return [type(value).__qualname__, _source(type(value), seen), _description(own, seen)]
    try:
        return [type(value).__qualname__, pickle.dumps(value, protocol=4)]
    except Exception:  # noqa: BLE001 - an object may refuse in any way
        return [type(value).__qualname__, secrets.token_hex(16)]


def _code(function: FunctionType, seen: Seen) -> Any:
    """Return the compiled code of a function, which differs between versions of Python."""
    code = function.__code__
    return (
        code.co_code,
        _description([each for each in code.co_consts if not inspect.iscode(each)], seen),
        code.co_names,
    )


def _source(target: Any, seen: Seen) -> Any:
    """Return the source of a function or class, and of its module; else its compiled code."""
    try:
        own = inspect.getsource(target)
    except (OSError, TypeError):  # typed into a console, or built in
        return _code(target, seen) if isinstance(target, FunctionType) else target.__module__
    try:
        return own, inspect.getsource(inspect.getmodule(target) or target)
    except (OSError, TypeError):
        return own
