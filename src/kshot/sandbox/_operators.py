"""Operators on what stands for objects of a program, in the process of the tests.

The program combines its objects with each other, and says what they are alone. It does not compare them with plain
values: else its ``__sub__`` would decide whether ``abs(f(x) - 3) < 1e-6``. It may add a plain value to an object or
scale an object by one, if another object comes of it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_COMPARISONS = ("lt", "le", "gt", "ge")
_WITH_OBJECTS = ("sub", "mod", "xor", "and", "or")
"""Tests use these to compare plain values (``f(x) - 3``, ``f(x) ^ 3``): with one, the program has no part in them."""

_WITH_ALL = ("add", "mul", "truediv", "floordiv", "matmul", "pow", "lshift", "rshift")
_UNARY = ("neg", "pos", "invert", "abs")
_REFUSED = ("bool", "len", "iter", "contains", "int", "float", "round")


def add_operators(remote: type) -> None:
    """Give the class of stand-ins its operators."""
    operators = _Operators(remote)
    for name in _COMPARISONS:
        setattr(remote, f"__{name}__", operators.comparison(name))
    for name in (*_WITH_OBJECTS, *_WITH_ALL):
        for before in ("", "i"):
            setattr(remote, f"__{before}{name}__", operators.binary(before + name, with_plain=name in _WITH_ALL))
    for name in _WITH_ALL:
        setattr(remote, f"__r{name}__", operators.binary(f"r{name}", with_plain=True))
    for name in _UNARY:
        setattr(remote, f"__{name}__", operators.unary(name))


class _Operators:
    """Makes operators. What comes of an object and a plain value is of the class ``Combined``.

    The plain value may be the one that is expected. So the program does not say whether such a result is true, how long
    it is, or how large: it decides neither ``not f(x) + -3`` nor ``len(f(x) + [3]) == 2``.
    """

    def __init__(self, remote: type) -> None:
        self._remote = remote
        refused = {f"__{name}__": _refused for name in _REFUSED}
        self._combined = type("Combined", (remote,), {"__slots__": (), **refused})

    def binary(self, name: str, *, with_plain: bool) -> Callable[[Any, Any], Any]:
        def operate(left: Any, right: Any) -> Any:
            is_plain = not isinstance(right, self._remote)
            if is_plain and not with_plain:
                return NotImplemented
            found = left._remote_apply(name, right)  # noqa: SLF001 - it is ours
            return self._made(found) if is_plain or self._is_combined(left, right) else found

        return operate

    def comparison(self, name: str) -> Callable[[Any, Any], Any]:
        def compare(left: Any, right: Any) -> Any:
            is_plain = not isinstance(right, self._remote)
            return NotImplemented if is_plain else left._remote_apply(name, right)  # noqa: SLF001 - it is ours

        return compare

    def unary(self, name: str) -> Callable[[Any], Any]:
        def operate(value: Any) -> Any:
            found = value._remote_apply(name)  # noqa: SLF001 - it is ours
            return self._made(found) if self._is_combined(value) else found

        return operate

    def _is_combined(self, *values: Any) -> bool:
        return any(isinstance(value, self._combined) for value in values)

    def _made(self, found: Any) -> Any:
        if not isinstance(found, self._remote):
            raise TypeError("an object of the program and a plain value do not give an object of the program")
        return found._remote_as(self._combined)  # type: ignore[attr-defined]  # noqa: SLF001 - it is ours


def _refused(*_: Any) -> Any:
    raise TypeError("what comes of an object of the program and a plain value can only be read, or compared")
