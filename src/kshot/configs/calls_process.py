"""Functions of BFCL's conversations, which the package bfcl_eval has, called in a process that can be killed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kshot.core.errors import DataError
from kshot.sandbox.calls import ConfinedFunction, Refused, TooSlow

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


def same_calls(scene: Scene, turns: Sequence[Sequence[Sequence[str]]], truth: Sequence[Sequence[str]]) -> bool:
    """Whether calls, by turns and steps, do what the right ones do; calls that take too long do not."""
    result = _executed(scene, turns, truth)
    return not isinstance(result, TooSlow) and bool(result)


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
