"""Values of a config as plain JSON, and back. Both ends of the confined process's pipe use it; standard library only.

Text, numbers, lists and dicts with text keys stay as they are. Everything else becomes an object with one key that
starts with ``$``: ``$dict``, ``$tuple``, ``$set``, ``$name`` (of another package), ``$own`` (a function or class of the
config), ``$opaque``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import NoneType
from typing import Any

MAX_VALUES = 3_000_000
MAX_DEPTH = 100
MAX_LETTERS = 16_000_000
MAX_BITS = 256
"""Whole numbers of configs are counts and seeds: one that no float can hold helps nobody."""


class Codec:
    """Encodes and decodes values. Functions and classes of the config stay where they are and travel as numbers."""

    def __init__(
        self,
        name_type: type = NoneType,
        describe: Callable[[Any], tuple[str, str]] = lambda value: (str(value), ""),
        own: Callable[[int, str, str], Any] = lambda number, name, kind: (number, name, kind),
        name: Callable[[str, str], Any] = lambda called, _: called,
        opaque: Callable[[str], Any] = lambda text: text,
    ) -> None:
        """Take how names are recognised and described (to encode), and what is made of them (to decode)."""
        self._name_type, self._describe = name_type, describe
        self.make_own, self._make_name, self._make_opaque = own, name, opaque
        self.decoded_own = False
        self._depth = 0
        self._owned: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._count = 0

    def owned(self, number: int) -> Any:
        """Return what was sent under a number."""
        return self._owned[number]

    def encode(self, value: Any) -> Any:
        """Return the plain form of a value."""
        self._count = self._depth = 0
        return self._plain(value)

    def _plain(self, value: Any) -> Any:
        self._count += 1
        if self._count > MAX_VALUES:
            raise ValueError(f"the config holds more than {MAX_VALUES:,} values")
        if self._depth > MAX_DEPTH:
            raise RecursionError(f"a value lies more than {MAX_DEPTH} deep in others, or in itself")
        if value is None or type(value) in (bool, int, float, str):
            return _bounded(value)
        self._depth += 1
        plain = self._nested(value)
        self._depth -= 1
        return plain

    def _nested(self, value: Any) -> Any:
        if isinstance(value, dict):
            if all(type(key) is str and not key.startswith("$") for key in value):
                return {key: self._plain(each) for key, each in value.items()}
            return {"$dict": [[self._plain(key), self._plain(each)] for key, each in value.items()]}
        if isinstance(value, (list, range)):
            return [self._plain(each) for each in value]
        if isinstance(value, (tuple, set, frozenset)):
            return {"$tuple" if isinstance(value, tuple) else "$set": [self._plain(each) for each in value]}
        if isinstance(value, self._name_type) and value is not None:
            return {"$name": list(self._describe(value))}
        return self._special(value)

    def _special(self, value: Any) -> Any:
        for base in (bool, int, float, str):
            if isinstance(value, base):
                return _bounded(base(value))
        if isinstance(value, os.PathLike):
            return _bounded(os.fsdecode(value))
        if hasattr(value, "item") and hasattr(value, "dtype"):  # a number of numpy, which may not be installed
            return self._plain(value.tolist())
        if callable(value):
            number = self._numbers.setdefault(id(value), len(self._owned))
            if number == len(self._owned):
                self._owned.append(value)
            called = str(getattr(value, "__name__", type(value).__name__))  # a callable object has none
            return {"$own": [number, called, "class" if isinstance(value, type) else "function"]}
        return {"$opaque": type(value).__name__}

    def decode(self, plain: Any) -> Any:
        """Return the value of a plain form, which may have been forged."""
        self._depth = 0
        return self._decoded(plain)

    def _decoded(self, plain: Any) -> Any:
        if not isinstance(plain, (list, dict)):
            return _bounded(plain)
        if self._depth > MAX_DEPTH:
            raise ValueError(f"a value lies more than {MAX_DEPTH} deep in others")
        self._depth += 1
        value = [self._decoded(each) for each in plain] if isinstance(plain, list) else self._decoded_dict(plain)
        self._depth -= 1
        return value

    def _decoded_dict(self, plain: dict[str, Any]) -> Any:  # noqa: PLR0911 - one for each kind of value
        if len(plain) == 1:
            ((key, content),) = plain.items()
            match key:
                case "$dict":
                    return {self._decoded(name): self._decoded(each) for name, each in content}
                case "$tuple":
                    return tuple(self._decoded(each) for each in content)
                case "$set":
                    return {self._decoded(each) for each in content}
                case "$name":
                    return self._make_name(str(content[0]), str(content[1]))
                case "$own":
                    self.decoded_own = True
                    return self.make_own(int(content[0]), str(content[1]), str(content[2]))
                case "$opaque":
                    return self._make_opaque(str(content))
        return {key: self._decoded(each) for key, each in plain.items()}


def _bounded(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_LETTERS:
        raise ValueError(f"a text has more than {MAX_LETTERS:,} letters")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise ValueError(f"a whole number has more than {MAX_BITS} bits")
    return value
