"""Executes function calls of BFCL's conversations on the classes of the package bfcl_eval.

Runs inside the confined process. The calls are read, not evaluated: they name a method of one of the classes, with
plain values or other such calls as arguments.
"""

from __future__ import annotations

import ast
import copy
import importlib
import json
import sys
from functools import partial

TYPE_CHECKING = False  # without the module typing where it is not needed
if TYPE_CHECKING:
    from typing import Any, NoReturn

_PLACE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_STATELESS = ("MathAPI",)
_CLASSES: dict[str, Any] = {}


def prepare(job: dict[str, Any]) -> None:
    """Import the classes."""
    sys.path.append(job["path"])
    _CLASSES.update({name: _class(name, file) for name, file in job["classes"]})


def executed(row: dict[str, Any], turns: list[list[list[str]]], truth: list[list[str]] | None) -> Any:
    """Whether calls, by turns and steps, do what the right ones do; without these, what the last step returns."""
    world = _World(row)
    if truth is not None:
        return _same(world, _World(row), turns, truth)
    return [world.execute(calls) for steps in turns for calls in steps][-1]


def _class(name: str, file: str) -> Any:
    """Return a class, or what says why it cannot be had when it is used."""
    try:
        return getattr(importlib.import_module(f"{_PLACE}.{file}"), name)
    except ImportError as error:
        return partial(_missing, str(error))


def _missing(why: str) -> NoReturn:
    raise ImportError(why)


class _World:
    """The objects on which the calls of one conversation work, each in the state that its row describes."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.objects = {name: _CLASSES[name]() for name in row["involved_classes"]}
        for name, each in self.objects.items():
            if name not in _STATELESS:
                state = copy.deepcopy(row["initial_config"].get(name, {}))
                each._load_scenario(state, long_context=row["long_context"])  # noqa: SLF001 - it has no public name
        self.methods = {
            name: getattr(each, name)
            for each in self.objects.values()
            for name in dir(each)
            if not name.startswith("_") and callable(getattr(each, name))
        }

    def execute(self, calls: list[str]) -> list[str]:
        """Return what the calls return, as text."""
        return [self._executed(call) for call in calls]

    def _executed(self, call: str) -> str:
        try:
            found = self._called(ast.parse(call.strip(), mode="eval").body)
        except Exception as error:  # noqa: BLE001 - the model is told of it
            return f"Error during execution: {error}"
        if isinstance(found, dict):
            try:
                return json.dumps(found)
            except (TypeError, ValueError):
                return str(found)
        return str(found)

    def _called(self, node: ast.expr) -> Any:
        if not isinstance(node, ast.Call):
            return ast.literal_eval(node)
        if not isinstance(node.func, ast.Name) or node.func.id not in self.methods:
            raise NameError(f"name {ast.unparse(node.func)!r} is not defined")
        given = [self._called(each) for each in node.args]
        named = {str(each.arg): self._called(each.value) for each in node.keywords}
        return self.methods[node.func.id](*given, **named)


def _same(world: _World, wanted: _World, turns: list[list[list[str]]], truth: list[list[str]]) -> bool:
    """Whether the calls of each turn lead to the state to which the right calls lead, and return what those return.

    A result may also come from an earlier turn. A turn without right calls is not looked at.
    """
    returned: list[str] = []
    for steps, calls in zip(turns, truth, strict=True):
        for step in steps:
            returned += world.execute(step)
        results = wanted.execute(calls)
        if calls and not (_same_state(world, wanted) and _all_in(results, returned)):
            return False
    return True


def _same_state(world: _World, wanted: _World) -> bool:
    """Whether all objects have equal public attributes."""
    return all(
        not getattr(world.objects[name], attribute) != value  # noqa: SIM202 - the classes may define either comparison
        for name, each in wanted.objects.items()
        for attribute, value in vars(each).items()
        if not attribute.startswith("_")
    )


def _all_in(results: list[str], returned: list[str]) -> bool:
    """Whether every result was returned, as often as it is wanted."""
    left = list(returned)
    for result in results:
        if result not in left:
            return False
        left.remove(result)
    return True
