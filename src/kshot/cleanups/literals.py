"""Python expressions of plain values in replies: computed without running any code of the reply. Standard library only.

OpenCompass passes replies to Python's ``eval``. Here constants, containers, arithmetic, comparisons and conditions are
computed; names, calls, attributes and everything else are refused, as a name that does not exist is there.
"""

from __future__ import annotations

import ast
import operator
import warnings

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


MAX_BITS = 4096
"""How large a whole number may grow in a computation."""
MAX_SIZE = 1_000_000
"""How many letters and items all operations of a computation may make together."""

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}


class NotPlain(ValueError):  # noqa: N818 - it names what was found
    """An expression has a part that is no plain value, or grows too large."""


def literal(text: str) -> Any:
    """Return the value of a Python literal, as ``ast.literal_eval`` does, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of odd literals, which here a model wrote
        return _written_alike(ast.literal_eval(text))


def computed(text: str) -> Any:
    """Return the value of a Python expression of plain values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _written_alike(_Computation().value(ast.parse(text.lstrip(" \t"), mode="eval").body))


NO_VALUE = (ValueError, SyntaxError, TypeError, ArithmeticError, LookupError, MemoryError, RecursionError)
"""What is raised where a text is no expression of plain values, or has no value."""


def text_of_literal(text: str, no_value: tuple[type[Exception], ...] = NO_VALUE) -> str:
    """Return the text that a reply writes as a Python expression, or the reply; other errors are raised."""
    try:
        value = computed(text)
    except no_value:
        return text
    return value if isinstance(value, str) else text


class _Computation:
    """The computation of one expression; all that its operations make together is bounded."""

    def __init__(self) -> None:
        self._left = MAX_SIZE

    def value(self, node: Any) -> Any:
        """Return the value of a part of the expression."""
        if type(node) not in _VALUES:
            raise NotPlain(f"{type(node).__name__} is no plain value")
        return _VALUES[type(node)](self, node)

    def values(self, nodes: list[Any]) -> list[Any]:
        """Return the values of several parts."""
        return [self.value(each) for each in nodes]

    def operation(self, node: ast.BinOp) -> Any:
        """Return the result of an operation with two values, unless it would grow too large."""
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Pow):
            return _power(left, right)
        if type(node.op) not in _BINARY:
            raise NotPlain(f"{type(node.op).__name__} is not computed")
        if isinstance(node.op, ast.Mod) and isinstance(left, (str, bytes)):
            raise NotPlain("texts are not formatted")
        self._spend(_product_size(left, right) if isinstance(node.op, ast.Mult) else _size(left) + _size(right))
        return _BINARY[type(node.op)](left, right)

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise NotPlain("it grows too large")


def either(node: ast.BoolOp, value: Callable[[Any], Any]) -> Any:
    """Return the value that decides ``and`` or ``or``; what comes after it is not computed."""
    stops, found = isinstance(node.op, ast.Or), None
    for each in node.values:
        found = value(each)
        if bool(found) is stops:
            break
    return found


def comparison(node: ast.Compare, value: Callable[[Any], Any]) -> Any:
    """Return whether all comparisons of a chain hold."""
    left, found = value(node.left), True
    for kind, each in zip(node.ops, node.comparators, strict=True):
        right = value(each)
        found = _COMPARISONS[type(kind)](left, right)
        if not found:
            break
        left = right
    return found


def _size(value: Any) -> int:
    """Return how much there is of a value: letters, digits, and all items of containers, also of those inside."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, dict):
        return len(value) + sum(_size(each) for item in value.items() for each in item)
    if isinstance(value, (list, tuple, set)):
        return len(value) + sum(map(_size, value))
    return 1 + value.bit_length() // 3 if isinstance(value, int) else 1


def _product_size(left: Any, right: Any) -> int:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, (str, bytes, list, tuple)) and isinstance(other, int):
            return _size(one) * max(other, 0)
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > MAX_BITS:
        raise NotPlain("it grows too large")
    return _size(left) + _size(right)


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > MAX_BITS:
        raise NotPlain("it grows too large")
    return base**exponent


_VALUES: dict[type, Callable[[_Computation, Any], Any]] = {
    ast.Constant: lambda _, node: node.value,
    ast.List: lambda computation, node: computation.values(node.elts),
    ast.Tuple: lambda computation, node: tuple(computation.values(node.elts)),
    ast.Set: lambda computation, node: set(computation.values(node.elts)),
    ast.Dict: lambda computation, node: dict(
        zip(computation.values(node.keys), computation.values(node.values), strict=True)
    ),
    ast.UnaryOp: lambda computation, node: _UNARY[type(node.op)](computation.value(node.operand)),
    ast.BinOp: _Computation.operation,
    ast.BoolOp: lambda computation, node: either(node, computation.value),
    ast.IfExp: lambda computation, node: computation.value(node.body if computation.value(node.test) else node.orelse),
    ast.Compare: lambda computation, node: comparison(node, computation.value),
    ast.Subscript: lambda computation, node: computation.value(node.value)[computation.value(node.slice)],
}
"""How each kind of expression is computed."""


# ---- sets ----


class _SortedSet(set):  # type: ignore[type-arg]  # typing is not loaded here
    """A set with texts, written in one order: Python's own order of them differs from process to process."""

    def __repr__(self) -> str:
        return "{" + ", ".join(sorted(map(repr, self))) + "}"


def _written_alike(value: Any) -> Any:
    """Return the value, with sets that are written alike in every process."""
    if isinstance(value, set):
        return _SortedSet(value) if any(map(_has_text, value)) else value
    if isinstance(value, dict):
        return {key: _written_alike(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_written_alike(each) for each in value)
    return value


def _has_text(value: Any) -> bool:
    return isinstance(value, (str, bytes)) or (isinstance(value, tuple) and any(map(_has_text, value)))


# ---- replies that are written as Python values, cleaned up by another clean-up ----


def cleaned_as_text(text: str, find: Callable[[str], Any], postprocess: Any, options: dict[str, Any]) -> str:
    """Read a reply as a Python literal, write it as text, and clean that up by another function."""
    try:
        plain = str(literal(text))  # str() refuses a number of more than 4,300 digits
    except NO_VALUE:
        plain = text
    return str(_cleaned(plain, find, postprocess, options))


def cleaned_value(
    framework: str, find: Callable[[str], Any], text: str, postprocess: Any = None, **options: Any
) -> Any:
    """Read a reply as a Python value, as a project does, and pass the value on: text, a list, a number."""
    try:
        value = _READERS[framework](text)
    except NO_VALUE:
        value = text
    return _cleaned(value, find, postprocess, options)


def _cleaned(value: Any, find: Callable[[str], Any], postprocess: Any, options: dict[str, Any]) -> Any:
    if not postprocess:
        return value
    return (find(postprocess) if isinstance(postprocess, str) else postprocess)(value, **options)


_READERS = {"opencompass": computed, "ais_bench": literal}
"""How each project reads a value."""
