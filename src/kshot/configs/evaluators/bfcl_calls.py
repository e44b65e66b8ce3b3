"""Function calls of a model: read from text, such as ``[f(a=1), g(b=[2])]``, or from an API's list.

Only those of conversations are executed, in a process that can be killed: the package bfcl_eval has their functions.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from kshot.cleanups.literals import NO_VALUE, computed
from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.sandbox.calls import ConfinedFunction, Refused, TooSlow

# ---- the functions of conversations ----

CLASSES: Mapping[str, str] = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
"""The classes that rows name, and the files of the package that have them and the documents of their functions."""

_PACKAGE = "bfcl_eval"
INSTALL = "Install it: pip install --no-deps bfcl_eval==2025.6.14 && pip install mpmath"


@dataclass(frozen=True)
class Scene:
    """What the calls of a row work on: classes, the state in which they begin, and whether files and lists are long."""

    classes: tuple[str, ...]
    state: Mapping[str, Any]
    long: bool = False

    def table(self) -> dict[str, Any]:
        """Return it as the worker reads it."""
        return {"involved_classes": list(self.classes), "initial_config": dict(self.state), "long_context": self.long}


def is_known(classes: Iterable[str]) -> bool:
    """Whether the package has all of these classes, and there is any."""
    names = list(classes)
    return bool(names) and all(name in CLASSES for name in names)


def has_functions() -> bool:
    """Whether the package is installed."""
    return find_spec(_PACKAGE) is not None


def call_results(scene: Scene, steps: Sequence[Sequence[str]]) -> list[str]:
    """Return what the calls of the last step return, after those of the steps before it."""
    result = _executed(scene, [steps], None)
    if isinstance(result, TooSlow):
        return ["Error during execution: the call takes too long"] * len(steps[-1])
    return [str(each) for each in result]


def _executed(scene: Scene, turns: Sequence[Sequence[Sequence[str]]], truth: Sequence[Sequence[str]] | None) -> Any:
    if not is_known(scene.classes):
        what = f"the row's involved_classes are {list(scene.classes)!r:.120}"
        raise DataError(what, hint=f"Those whose functions can be called: {', '.join(CLASSES)}.")
    result = EXECUTED(scene.table(), turns, truth)
    if isinstance(result, Refused):
        raise DataError(f"the functions of the row cannot be set up: {result}", hint=INSTALL)
    return result


def _setup() -> Mapping[str, Any]:
    """Return where the package is, and what to import of it."""
    place = find_spec(_PACKAGE)
    if place is None or not place.submodule_search_locations:
        raise DataError("the functions of BFCL's conversations are in the package bfcl_eval", hint=INSTALL)
    path = Path(next(iter(place.submodule_search_locations))).parent
    return {"path": str(path), "classes": list(CLASSES.items())}


EXECUTED = ConfinedFunction(
    "kshot.configs._calls_worker:executed", seconds=10, work="calls BFCL's functions", setup=_setup, hint=INSTALL
)


# ---- reading calls ----

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


def _negated(node: Any) -> Any:
    """Return minus a number, whatever the sign in front of it is: BFCL reads no other."""
    if not isinstance(node.operand, ast.Constant):
        raise NoCallsError("a sign stands before something that is no number")
    return -node.operand.value  # type: ignore[operator]  # what has no minus is a TypeError, so no call


_READERS: Mapping[type, Callable[[Any], Any]] = {
    ast.Constant: lambda node: "..." if node.value is Ellipsis else node.value,
    ast.UnaryOp: _negated,
    ast.BinOp: lambda node: computed(ast.unparse(node)),  # of constants: names are unknown, and nothing is called
    ast.List: lambda node: [_value(each) for each in node.elts],
    ast.Tuple: lambda node: tuple(_value(each) for each in node.elts),
    ast.Dict: lambda node: {_value(key): _value(value) for key, value in zip(node.keys, node.values, strict=True)},
    ast.Name: lambda node: node.id,
    ast.Call: lambda node: _call(node) if node.keywords else ast.unparse(node),
    ast.Subscript: lambda node: f"{ast.unparse(node.value)}[{ast.unparse(node.slice)}]",
}


# ---- conversations ----

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
    if all(_written_alike(steps, calls) for steps, calls in zip(turns, truth, strict=True)):
        return True
    result = _executed(scene_of(row), turns, truth)
    return not isinstance(result, TooSlow) and bool(result)


def needs_functions(rows: Iterable[Row]) -> None:
    """Raise the error that names the package if rows have functions that cannot be called without it."""
    if not has_functions() and any(is_known(_class_names(row)) for row in rows):
        raise DataError("the functions of BFCL's conversations are in the package bfcl_eval", hint=INSTALL)


def scene_of(row: Row) -> Scene:
    """Return what the calls of a row work on."""
    state = _column_value(row.get("initial_config"))
    long = any(word in str(row.get("id", "")).rpartition("_")[0] for word in ("long_context", "composite"))
    return Scene(tuple(_class_names(row)), state if isinstance(state, dict) else {}, long)


def _class_names(row: Row) -> list[str]:
    found = _column_value(row.get("involved_classes"))
    return [str(each) for each in found] if isinstance(found, list) else []


def _column_value(value: Any) -> Any:
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
    return f"{name}({', '.join(f'{each}={_written_value(value)}' for each, value in given.items())})"


def _written_value(value: Any) -> str:
    """Write an argument; a dict of dicts is a call, as its reading gives it."""
    if not isinstance(value, dict):
        return repr(value)
    if all(isinstance(each, dict) for each in value.values()):
        name = next(iter(value), None)
        if name is None:
            raise NoCallsError("a dict without keys is no argument")
        return _written(name, value[name])
    return "{" + ", ".join(f"'{key}': {_written_value(each)}" for key, each in value.items()) + "}"


def _written_plainly(name: str, given: Any) -> str:
    """Write a call that an API returned: its arguments are a dict, or one as JSON."""
    arguments = json.loads(given) if isinstance(given, str) else given
    return f"{name}({','.join(f'{each}={value!r}' for each, value in arguments.items())})"


def _written_alike(steps: Steps, calls: Sequence[str]) -> bool:
    """Whether the calls of a turn are written as the right ones are, in their order."""
    made = [call for step in steps for call in step]
    trees = [_tree(call) for call in made]
    return None not in trees and trees == [_tree(call) for call in calls]


def _tree(call: str) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of odd literals, which here a model wrote
            return ast.dump(ast.parse(call.strip(), mode="eval"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
