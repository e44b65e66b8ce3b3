"""What the restricted reader of configs may call: a few functions and methods of plain data, each with limits.

Standard library only.
"""

from __future__ import annotations

import copy
import functools
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from kshot.configs._stand_ins import AttributeDict, ReadBase, StandIn

MAX_LENGTH = 4_000_000
"""How many letters or elements a value may have."""
_MAX_BITS = 4096
_WIDTH = re.compile(r"\d{4,}")
_FIELD = re.compile(r"\{\{|\}\}|\{(\w*)(?:!([rs]))?(?::([^{}]*))?\}|[{}]")


class NotRead(Exception):  # noqa: N818 - it names what did not happen
    """The restricted reader does not do what the config asks."""


def refuse(what: str) -> NotRead:
    """Return the error that something is not done."""
    return NotRead(f"not allowed in a config file that is read without running it: {what}")


class StandardName:
    """A name of the standard library. It can be mentioned; a few functions can be called."""

    def __init__(self, called: str) -> None:
        """Keep the dotted name."""
        self.called = called


class OpenedText:
    """A text file of the project that was opened."""

    def __init__(self, path: str, mode: str = "r", encoding: str | None = None) -> None:
        """Read it."""
        if mode not in {"r", "rt"}:
            raise refuse(f"opening a file with the mode {mode!r}")
        with open(path, encoding=encoding or "utf-8") as file:  # noqa: PTH123 - it asks the parent
            self.text = file.read()

    def read(self) -> str:
        """Return its text."""
        return self.text


def not_run(kind: str, name: str) -> Any:
    """Return what stands for a function or class of the config: it cannot be called, and its kind says what it was."""
    return type(f"{kind} {name}", (), {})()


def _locals(space: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in space.items() if not name.startswith("__")}


def _range(*numbers: int) -> range:
    found = range(*numbers)
    sized(found)
    return found


def _sum(values: Any, start: Any = 0) -> Any:
    for value in values:
        start = add(start, value)
    return start


BUILTINS: dict[str, Callable[..., Any]] = {
    "open": OpenedText,
    **{f.__name__: f for f in (dict, list, tuple, set, str, int, float, bool, len, sorted, min, max, abs, round)},
    "any": any,
    "all": all,
    "range": _range,
    "sum": _sum,
    "reversed": lambda values: list(values)[::-1],
    "enumerate": lambda values, start=0: list(enumerate(values, start)),
    "zip": lambda *many: list(zip(*many)),  # noqa: B905 - as Python's
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "functools.partial": functools.partial,
    "os.path.join": os.path.join,
    "os.path.dirname": os.path.dirname,
    "os.path.basename": os.path.basename,
    "os.path.exists": os.path.exists,
    "os.path.isfile": os.path.isfile,
    "os.environ.get": lambda name, default=None: os.environ.get(name, default),
    "os.getenv": lambda name, default=None: os.environ.get(name, default),
}
EXCEPTIONS: dict[str, type[Exception]] = {
    each.__name__: each for each in (Exception, ImportError, ModuleNotFoundError, KeyError, NameError, ValueError)
}
_TEXT = "capitalize casefold count endswith find index isalpha isdigit islower isupper lower lstrip partition \
removeprefix removesuffix rfind rpartition rsplit rstrip split splitlines startswith strip title upper"
_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(_TEXT.split()),
    list: frozenset(
        ["append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "sort"]
    ),
    dict: frozenset(["copy", "deepcopy", "get", "items", "keys", "pop", "setdefault", "update", "values"]),
    tuple: frozenset(("count", "index")),
    OpenedText: frozenset(("read",)),
    set: frozenset(["add", "copy", "discard", "remove", "union", "update"]),
}


def called(function: Any, args: list[Any], kwargs: dict[str, Any], space: Mapping[str, Any]) -> Any:
    """Call a function that the reader knows."""
    if isinstance(function, StandardName):
        known = FUNCTIONS.get(function.called)
        if known is None:
            raise refuse(f"a call of {function.called}")
        return sized(known(*args, **kwargs))
    if isinstance(function, (StandIn, ReadBase)) or function is AttributeDict:
        return function(*args, **kwargs)
    if function is _locals:
        return _locals(space)
    if not any(function is known for known in BUILTINS.values()):
        raise refuse(f"a call of {getattr(function, '__name__', type(function).__name__)}")
    plain = _plain(args)
    if function is str and plain and not isinstance(plain[0], (str, int, float, bool, type(None))):
        return sized(repr(plain[0]))
    return sized(function(*plain, **kwargs))


BUILTINS["locals"] = BUILTINS["globals"] = BUILTINS["vars"] = _locals


def method(owner: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call a method of plain data."""
    kind = next((each for each in _METHODS if isinstance(owner, each)), None)
    args = _plain(args)
    if kind is str and name == "format":
        return formatted(owner, args, kwargs)
    if kind is str and name == "join":
        parts: list[str] = list(*args)
        if len(owner) * len(parts) + sum(len(part) for part in parts) > MAX_LENGTH:
            raise refuse("so long a text")
        return owner.join(parts)
    if kind is str and name == "replace":
        if len(owner) + owner.count(args[0]) * len(args[1]) > MAX_LENGTH:
            raise refuse("so long a text")
        return owner.replace(*args)
    if kind is None or name not in _METHODS[kind]:
        raise refuse(f"the method {name} of a {type(owner).__name__}")
    if name in {"items", "keys", "values"}:
        return list(getattr(owner, name)())
    result = getattr(owner, name)(*args, **kwargs)
    sized(owner)
    return sized(result)


def _plain(args: list[Any]) -> list[Any]:
    """Refuse arguments whose own methods a function would call."""
    for each in args:
        if isinstance(each, StandardName):
            raise refuse(f"{each.called} as an argument")
    return args


def sized(value: Any) -> Any:
    """Return a value that is not too large."""
    if isinstance(value, (str, bytes, list, tuple, dict, set, range)) and len(value) > MAX_LENGTH:
        raise refuse(f"a value of {len(value):,} letters or elements")
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise refuse("so large a number")
    return value


def add(left: Any, right: Any) -> Any:
    """Add numbers, texts or lists."""
    kinds = (str, list, tuple)
    if isinstance(left, kinds) and isinstance(right, kinds) and len(left) + len(right) > MAX_LENGTH:
        raise refuse("so long a value")
    return left + right


def multiply(left: Any, right: Any) -> Any:
    """Multiply numbers, or repeat a text or list."""
    for sequence, times in ((left, right), (right, left)):
        if isinstance(sequence, (str, list, tuple)) and isinstance(times, int) and len(sequence) * times > MAX_LENGTH:
            raise refuse("so long a value")
    return sized(left * right)


def power(left: Any, right: Any) -> Any:
    """Raise a number to a power."""
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > _MAX_BITS:
        raise refuse("so large a number")
    return left**right


def remainder(left: Any, right: Any) -> Any:
    """Take a remainder, or fill a text in."""
    if isinstance(left, str):
        check_widths(left)
        if "*" in left:
            raise refuse("a width that is not written out")
    return sized(left % right)


def check_widths(text: str) -> None:
    """Refuse a format that would make a few letters millions."""
    if _WIDTH.search(text):
        raise refuse(f"the width {_WIDTH.findall(text)[0]}")


def formatted(text: str, args: list[Any], kwargs: dict[str, Any]) -> str:
    """Fill ``{}``, ``{0}`` and ``{name}`` in, with simple formats and without attributes."""
    numbers = iter(range(len(args)))

    def filled(match: re.Match[str]) -> str:
        if match[0] in {"{{", "}}"}:
            return match[0][0]
        if match[1] is None:
            raise refuse(f"the format {text[:80]!r}")
        name = match[1] or str(next(numbers, len(args)))
        value = args[int(name)] if name.isdecimal() else kwargs[name]
        return one_formatted(value, match[2] or "", match[3] or "")

    return str(sized(_FIELD.sub(filled, text)))


def one_formatted(value: Any, conversion: str, form: str) -> str:
    """Return the text of a value in an f-string."""
    check_widths(form)
    value = repr(value) if conversion == "r" else value
    return format(value, form) if isinstance(value, (str, int, float)) else str(value)
