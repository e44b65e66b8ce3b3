"""Ranges of rows: ``[0:100]``, ``[::2]``, ``[:2]+index_list[-1:]``, read without running them."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from typing import Any, TypeVar

from kshot.core.errors import DataError

T = TypeVar("T")

_ROWS = "index_list"
"""The name of all row numbers in a range: the frameworks evaluate this name and the text of the range after it."""

MAX_LETTERS = 2000
"""How long the text of a range may be."""
MAX_CHOSEN = 50_000_000
"""How many rows a range may choose; a range can repeat rows."""
MAX_NUMBER = 10**12


def chosen(rows: list[T], wanted: Any, *, where: str = "") -> list[T]:
    """Return the rows of a range: an expression of slices as text, a number or a fraction.

    A number of rows is drawn at random, and the number itself is the seed.
    """
    if wanted is None or wanted == "":
        return rows
    if isinstance(wanted, str):
        return [rows[index] for index in _numbers(wanted, len(rows), where)]
    if isinstance(wanted, bool) or not isinstance(wanted, (int, float)):
        raise bad_range(wanted, where)
    if wanted >= len(rows) or wanted <= 0:
        return rows
    count = int(wanted * len(rows)) if wanted < 1 else wanted
    if not isinstance(count, int):
        raise bad_range(wanted, where)
    order = list(range(len(rows)))
    random.Random(count).shuffle(order)  # noqa: S311 - the draw of the frameworks
    return [rows[index] for index in order[:count]]


def _numbers(text: str, size: int, where: str) -> list[int]:
    """Return the row numbers that the text of a range stands for."""
    if len(text) > MAX_LETTERS:
        raise bad_range(f"{text[:60]}…", where)
    try:
        found = _value(ast.parse(f"{_ROWS}{text}", mode="eval").body, size)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise bad_range(text, where) from None
    if not isinstance(found, list):  # one number is no list of rows
        raise bad_range(text, where)
    for index in found:
        if not -size <= index < size:
            raise DataError(f"the range {text!r} asks for row {index}; there are {size} rows", where=where)
    return found


def _value(node: ast.expr, size: int) -> list[int] | int:
    """Return the value of a part of a range: row numbers, or a whole number. Any other Python is a ValueError."""
    read = _READERS.get(type(node))
    if read is None:
        raise ValueError("no part of a range")
    return read(node, size)


def _name(node: ast.Name, size: int) -> list[int]:
    if node.id != _ROWS:
        raise ValueError("no part of a range")
    return list(range(size))


def _constant(node: ast.Constant, size: int) -> int:  # noqa: ARG001 - as all readers
    if not isinstance(node.value, int) or isinstance(node.value, bool):
        raise ValueError("no whole number")  # noqa: TRY004 - one error for all that cannot be read
    return _small(node.value)


def _signed(node: ast.UnaryOp, size: int) -> int:
    if not isinstance(node.op, (ast.USub, ast.UAdd)):
        raise ValueError("no part of a range")  # noqa: TRY004 - one error for all that cannot be read
    number = _number(node.operand, size)
    return -number if isinstance(node.op, ast.USub) else number


def _listed(node: ast.List, size: int) -> list[int]:
    return [_number(each, size) for each in node.elts]


def _part(node: ast.Subscript, size: int) -> list[int] | int:
    held = _rows(node.value, size)
    if isinstance(node.slice, ast.Slice):
        parts = (node.slice.lower, node.slice.upper, node.slice.step)
        return held[slice(*(None if part is None else _number(part, size) for part in parts))]
    place = _number(node.slice, size)
    if not -len(held) <= place < len(held):
        raise ValueError("no such row")
    return held[place]


def _combined(node: ast.BinOp, size: int) -> list[int] | int:
    left, right = _value(node.left, size), _value(node.right, size)
    if isinstance(left, int) and isinstance(right, int):
        return _small(_reckoned(left, node.op, right))
    if isinstance(left, list) and isinstance(right, list) and isinstance(node.op, ast.Add):
        times, size = 1, len(left) + len(right)
    elif isinstance(left, list) and isinstance(right, int) and isinstance(node.op, ast.Mult):
        times, size = right, len(left) * right
    else:
        raise ValueError("no part of a range")  # noqa: TRY004 - one error for all that cannot be read
    if size > MAX_CHOSEN:
        raise ValueError("too many rows")
    return [*left, *right] if isinstance(right, list) else left * times


def _reckoned(left: int, sign: ast.operator, right: int) -> int:
    match sign:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv() if right:
            return left // right
    raise ValueError("no part of a range")


_READERS: dict[type[ast.expr], Callable[[Any, int], list[int] | int]] = {
    ast.Name: _name,
    ast.Constant: _constant,
    ast.UnaryOp: _signed,
    ast.List: _listed,
    ast.Subscript: _part,
    ast.BinOp: _combined,
}


def _rows(node: ast.expr, size: int) -> list[int]:
    found = _value(node, size)
    if not isinstance(found, list):
        raise ValueError("no list of rows")  # noqa: TRY004 - one error for all that cannot be read
    return found


def _number(node: ast.expr, size: int) -> int:
    found = _value(node, size)
    if isinstance(found, list):
        raise ValueError("no whole number")  # noqa: TRY004 - one error for all that cannot be read
    return _small(found)


def _small(number: int) -> int:
    if abs(number) > MAX_NUMBER:
        raise ValueError("too large")
    return number


def bad_range(wanted: Any, where: str) -> DataError:
    """Return the error of a range that cannot be read."""
    return DataError(
        f"the range {wanted!r} cannot be read",
        where=where,
        hint="Write a slice as text, '[0:100]' or '[::2]', slices joined by +, '[:2]+index_list[-1:]', a whole number "
        "of rows, or a fraction below 1.",
    )
