"""Function calls of a model, read without running them: text, such as ``[f(a=1), g(b=[2])]``, or an API's list."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kshot.cleanups.literals import NO_VALUE, computed

Call: TypeAlias = dict[Any, Any]
"""The name of a function with its arguments by name: ``{"f": {"a": 1}}``."""


class NoCallsError(ValueError):
    """A reply that holds no function calls which can be read."""


def calls_of(answer: Any) -> list[Call]:
    """Return the calls of an answer: text, or a list of ``{name: arguments as JSON}`` as an API returns them."""
    try:
        return calls_in(answer) if isinstance(answer, str) else [_of_api(each) for each in answer]
    except NoCallsError:
        raise
    except (*NO_VALUE, AttributeError, StopIteration) as exc:
        raise NoCallsError(f"the calls cannot be read: {exc}") from exc


def _of_api(call: Mapping[str, Any]) -> Call:
    name = next(iter(call.keys()))
    return {name: json.loads(call[name])}


def calls_in(text: str) -> list[Call]:
    """Return the calls in a text: one, or several with commas between them, in brackets and back quotes or without."""
    inner = text.strip("`\n ").strip("[]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of odd literals, which here a model wrote
        parsed = ast.parse(inner, mode="eval").body
    if isinstance(parsed, ast.Call):
        return [_call(parsed)]
    if not isinstance(parsed, (ast.Tuple, ast.List, ast.Set)):
        raise NoCallsError("this is no function call")
    if not all(isinstance(each, ast.Call) for each in parsed.elts):
        raise NoCallsError("not all of these are function calls")
    return [_call(each) for each in parsed.elts if isinstance(each, ast.Call)]


def _call(node: ast.Call) -> Call:
    """Return a call; arguments without a name are left out."""
    parts: list[str] = []
    named: ast.expr = node.func
    while isinstance(named, ast.Attribute):
        parts.append(named.attr)
        named = named.value
    if isinstance(named, ast.Name):
        parts.append(named.id)
    return {".".join(reversed(parts)): {each.arg: _value(each.value) for each in node.keywords}}


def _value(node: ast.expr | None) -> Any:
    """Return the value of an argument: what is a variable, or a call without named arguments, is its text."""
    reader = _READERS.get(type(node))
    if reader is None or node is None:
        raise NoCallsError(f"an argument cannot be {type(node).__name__}")
    return reader(node)


def _constant(node: Any) -> Any:
    return "..." if node.value is Ellipsis else node.value


def _negated(node: Any) -> Any:
    """Return minus a number, whatever the sign in front of it is: BFCL reads no other."""
    if not isinstance(node.operand, ast.Constant):
        raise NoCallsError("a sign stands before something that is no number")
    return -node.operand.value  # type: ignore[operator]  # what has no minus is a TypeError, so no call


def _inner_call(node: Any) -> Any:
    return _call(node) if node.keywords else ast.unparse(node)


def _item(node: Any) -> str:
    return f"{ast.unparse(node.value)}[{ast.unparse(node.slice)}]"


def _computed(node: Any) -> Any:
    """Return the value of arithmetic with constants; names are unknown, and nothing is called."""
    return computed(ast.unparse(node))


_READERS: Mapping[type, Callable[[Any], Any]] = {
    ast.Constant: _constant,
    ast.UnaryOp: _negated,
    ast.BinOp: _computed,
    ast.List: lambda node: [_value(each) for each in node.elts],
    ast.Tuple: lambda node: tuple(_value(each) for each in node.elts),
    ast.Dict: lambda node: {_value(key): _value(value) for key, value in zip(node.keys, node.values, strict=True)},
    ast.Name: lambda node: node.id,
    ast.Call: _inner_call,
    ast.Subscript: _item,
}
