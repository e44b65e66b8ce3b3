"""Functions that tests of programs use. Their source goes into the tests, so each needs nothing but what it imports.

They run in the sandbox, beside the tests; see ``sandbox.program``.
"""

from __future__ import annotations

from typing import Any


def same_kind(actual: Any, expected: Any) -> bool:
    """Whether two values are equal and of the same type, all the way down: 1 is neither 1.0 nor True."""
    pairs = [(actual, expected)]
    while pairs:
        one, other = pairs.pop()
        kind = type(one)
        if kind is not type(other):
            return False
        if not issubclass(kind, (list, tuple, dict, set, frozenset)):
            try:
                equal = one == other
            except Exception:  # noqa: BLE001 - a comparison of a program may raise anything
                equal = False
            if equal is not True:
                return False
            continue
        mine, theirs = ([*(each.items() if issubclass(kind, dict) else each)] for each in (one, other))
        if len(mine) != len(theirs):
            return False
        if not issubclass(kind, (list, tuple)):  # in any order: each of ours is put beside the first that is its like
            ordered = []
            for each in mine:
                likes = [at for at, their in enumerate(theirs) if same_kind(each, their)]
                if not likes:
                    return False
                ordered.append(theirs.pop(likes[0]))
            theirs = ordered
        pairs += zip(mine, theirs, strict=True)
    return True


def equal_values(actual: Any, expected: Any) -> bool:
    """Whether two values are equal."""
    return bool(actual == expected)


def as_json(output: Any) -> Any:
    """Return a value that can be written as JSON; any other is an error."""
    import json

    json.dumps(output)
    return output


def returned(output: Any, expected: Any, same: Any) -> bool:
    """Whether a function returned what was expected, or the first of a list of that; tuples count as lists."""
    output = list(output) if isinstance(output, tuple) else output
    if same(output, expected):
        return True
    if not isinstance(expected, list) or not expected:
        return False
    has_tuples = isinstance(output, list) and bool(output) and isinstance(output[0], tuple)
    return same(output, expected[0]) or (has_tuples and [list(each) for each in output] == expected[0])


def printed(text: str, expected: str) -> bool:
    """Whether a program printed what was expected: white space around lines and empty lines aside, or as numbers."""
    lines, wanted = text.splitlines(), [line.strip() for line in expected.split("\n") if line]
    if expected.strip() in ("\n".join(lines).strip(), "\n".join(line.strip() for line in lines).strip()):
        return True
    filled = [line for line in lines if line]
    if wanted in (lines, filled):
        return True
    if len(filled) != len(wanted) or all(a.isdigit() and b.isdigit() for a, b in zip(filled, wanted, strict=True)):
        return False
    try:
        numbers = [(float(a), float(b)) for a, b in zip(filled, wanted, strict=True)]
    except ValueError:
        return False
    return all(a == b or abs(a - b) <= 1e-8 + 1e-5 * abs(b) < float("inf") for a, b in numbers)


def printed_loosely(text: str, expected: str) -> bool:
    """Whether a program printed the numbers or, in any order, the lines and words that were expected."""
    lines, wanted = text.splitlines(), [line.strip() for line in expected.split("\n") if line]
    if expected.strip() in ("\n".join(lines).strip(), "\n".join(line.strip() for line in lines).strip()):
        return True
    filled = [line for line in lines if line]
    if wanted in (lines, filled):
        return True
    try:
        numbers = [[float(line) for line in each] for each in (filled, wanted)]
        if len(filled) == len(wanted) and all(
            a == b or abs(a - b) <= 1e-8 + 1e-5 * abs(b) < float("inf") for a, b in zip(*numbers, strict=True)
        ):
            return True
    except ValueError:
        pass
    words = [[line.split() for line in lines if line.split()], [line.split() for line in wanted]]
    found, right = ({frozenset(line) for line in each} for each in words)
    if found == right:
        return True
    try:
        found, right = ({frozenset(str(round(float(word), 3)) for word in line) for line in each} for each in words)
    except ValueError:
        return False
    return found == right


def with_int_keys(value: Any) -> Any:
    """Write a dict, or a list that begins with one, as a list of one dict with numbers as keys, where they are."""
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict):
        return value
    try:
        return [{int(key): each for key, each in first.items()}]
    except ValueError:
        return value


def within(seconds: float, call: Any, *values: Any) -> Any:
    """Call a function, and stop it after so many seconds."""
    import signal

    def late(*_: Any) -> None:
        raise TimeoutError(f"timed out after {seconds} s")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return call(*values)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def output_of(call: Any, text: str, seconds: float) -> str:
    """Return what a function prints, given an input."""
    import io
    import sys

    sys.stdin, sys.stdout = io.StringIO(text), io.StringIO()
    within(seconds, call)
    return sys.stdout.getvalue()
