"""BFCL's conversations: whether the calls of every turn do what the right calls do."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from kshot.configs.calls_process import INSTALL, Scene, has_functions, is_known, same_calls
from kshot.configs.evaluators.bfcl_calls import NoCallsError, calls_of
from kshot.core.errors import DataError
from kshot.core.records import Row

Steps = list[list[str]]
"""The calls of one turn, each as text: those of one reply are a step."""


def right_turns(row: Row, answer: Any, truth: Any) -> bool:
    """Whether a conversation is right. Calls are executed only where it is not plain without.

    An answer is a list of turns, each a list of replies.
    """
    if not _is_truth(truth):
        raise DataError("the right calls of a conversation are a list of turns, each a list of calls")
    answer = [[answer]] if isinstance(answer, str) else answer
    if not isinstance(answer, list) or len(answer) != len(truth):  # it was ended early, or failed
        return False
    turns = [_steps(replies) for replies in answer]
    if any(calls and not steps for steps, calls in zip(turns, truth, strict=True)):
        return False
    if all(_same_calls(steps, calls) for steps, calls in zip(turns, truth, strict=True)):
        return True
    return same_calls(scene_of(row), turns, truth)


def needs_functions(rows: Iterable[Row]) -> None:
    """Raise the error that names the package if rows have functions that cannot be called without it."""
    if not has_functions() and any(is_known(_names(row)) for row in rows):
        raise DataError("the functions of BFCL's conversations are in the package bfcl_eval", hint=INSTALL)


def scene_of(row: Row) -> Scene:
    """Return what the calls of a row work on."""
    state = _plain(row.get("initial_config"))
    long = any(word in str(row.get("id", "")).rpartition("_")[0] for word in ("long_context", "composite"))
    return Scene(tuple(_names(row)), state if isinstance(state, dict) else {}, long)


def _names(row: Row) -> list[str]:
    found = _plain(row.get("involved_classes"))
    return [str(each) for each in found] if isinstance(found, list) else []


def _plain(value: Any) -> Any:
    """Return what a column holds, which may be written as JSON."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def _is_truth(truth: Any) -> bool:
    return isinstance(truth, list) and all(
        isinstance(turn, list) and all(isinstance(call, str) for call in turn) for turn in truth
    )


# ---- the calls of replies, written as they are executed ----


def _steps(replies: Any) -> Steps:
    """Return the calls of a turn; replies without calls, words for example, are left out."""
    found = [executable(reply) for reply in replies] if isinstance(replies, list) else []
    return [step for step in found if step and step != [""]]


def executable(reply: Any) -> list[str]:
    """Return the calls of a reply as text; none where it has none that can be read."""
    try:
        if isinstance(reply, str):
            return [_written(name, given) for call in calls_of(reply) for name, given in call.items()]
        calls = [reply] if isinstance(reply, dict) else reply
        return [_written_plainly(name, given) for call in calls for name, given in call.items()]
    except (NoCallsError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return []


def _written(name: str, given: dict[Any, Any]) -> str:
    return f"{name}({', '.join(f'{each}={_value(value)}' for each, value in given.items())})"


def _value(value: Any) -> str:
    """Write an argument; a dict of dicts is a call, as its reading gives it."""
    if not isinstance(value, dict):
        return repr(value)
    if all(isinstance(each, dict) for each in value.values()):
        name = next(iter(value), None)
        if name is None:
            raise NoCallsError("a dict without keys is no argument")
        return _written(name, value[name])
    return "{" + ", ".join(f"'{key}': {_value(each)}" for key, each in value.items()) + "}"


def _written_plainly(name: str, given: Any) -> str:
    """Write a call that an API returned: its arguments are a dict, or one as JSON."""
    arguments = json.loads(given) if isinstance(given, str) else given
    return f"{name}({','.join(f'{each}={value!r}' for each, value in arguments.items())})"


def _same_calls(steps: Steps, calls: Sequence[str]) -> bool:
    """Whether the calls of a turn are written as the right ones are, in their order."""
    made = [call for step in steps for call in step]
    return len(made) == len(calls) and all(map(_same_tree, made, calls))


def _same_tree(one: str, other: str) -> bool:
    return (tree := _tree(one)) is not None and tree == _tree(other)


def _tree(call: str) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of odd literals, which here a model wrote
            return ast.dump(ast.parse(call.strip(), mode="eval"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
