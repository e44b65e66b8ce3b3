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
MAX_LENGTH = 100_000
"""How long a text or list may grow in a computation."""

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
_COMPARED: dict[type, Callable[[Any, Any], Any]] = {
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
        return ast.literal_eval(text)


def computed(text: str) -> Any:
    """Return the value of a Python expression of plain values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _value(ast.parse(text.lstrip(" \t"), mode="eval").body)


NO_VALUE = (ValueError, SyntaxError, TypeError, ArithmeticError, LookupError, MemoryError, RecursionError)
"""What is raised where a text is no expression of plain values, or has no value."""


def text_of_literal(text: str, no_value: tuple[type[Exception], ...] = NO_VALUE) -> str:
    """Return the text that a reply writes as a Python expression, or the reply; other errors are raised."""
    try:
        value = computed(text)
    except no_value:
        return text
    return value if isinstance(value, str) else text


def _value(node: Any) -> Any:
    if type(node) not in _VALUES:
        raise NotPlain(f"{type(node).__name__} is no plain value")
    return _VALUES[type(node)](node)


def _values(nodes: list[Any]) -> list[Any]:
    return [_value(each) for each in nodes]


def _operation(kind: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(kind, ast.Pow):
        return _power(left, right)
    if type(kind) not in _BINARY:
        raise NotPlain(f"{type(kind).__name__} is not computed")
    if isinstance(kind, ast.Mult):
        _limited_product(left, right)
    elif isinstance(kind, ast.Mod) and isinstance(left, (str, bytes)):
        raise NotPlain("texts are not formatted")
    return _BINARY[type(kind)](left, right)


def _limited_product(left: Any, right: Any) -> None:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, (str, bytes, list, tuple)) and isinstance(other, int) and len(one) * other > MAX_LENGTH:
            raise NotPlain("it grows too large")
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > MAX_BITS:
        raise NotPlain("it grows too large")


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > MAX_BITS:
        raise NotPlain("it grows too large")
    return base**exponent


def _either(node: ast.BoolOp) -> Any:
    stops = isinstance(node.op, ast.Or)
    value = None
    for each in node.values:
        value = _value(each)
        if bool(value) is stops:
            break
    return value


def _comparison(node: ast.Compare) -> Any:
    left, found = _value(node.left), True
    for kind, each in zip(node.ops, node.comparators, strict=True):
        right = _value(each)
        found = _COMPARED[type(kind)](left, right)
        if not found:
            break
        left = right
    return found


_VALUES: dict[type, Callable[[Any], Any]] = {
    ast.Constant: lambda node: node.value,
    ast.List: lambda node: _values(node.elts),
    ast.Tuple: lambda node: tuple(_values(node.elts)),
    ast.Set: lambda node: set(_values(node.elts)),
    ast.Dict: lambda node: dict(zip(_values(node.keys), _values(node.values), strict=True)),
    ast.UnaryOp: lambda node: _UNARY[type(node.op)](_value(node.operand)),
    ast.BinOp: lambda node: _operation(node.op, _value(node.left), _value(node.right)),
    ast.BoolOp: _either,
    ast.IfExp: lambda node: _value(node.body if _value(node.test) else node.orelse),
    ast.Compare: _comparison,
    ast.Subscript: lambda node: _value(node.value)[_value(node.slice)],
}
"""How each kind of expression is computed."""
