"""The commands that have a module of their own: it declares the arguments of the command, and runs it.

``add(commands)`` declares the arguments; ``execute(parsed)`` returns the exit code. Both import what they need when
they are called, so that ``kshot --help`` stays quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kshot.cli import check, compare, export, gate, merge, new, report, runs, samples, show, view

if TYPE_CHECKING:
    import argparse


class Command(Protocol):
    """A module with one command."""

    def add(self, commands: Any, /) -> None:
        """Declare the command and its arguments."""
        ...

    def execute(self, parsed: argparse.Namespace, /) -> int:
        """Run the command; return the exit code."""
        ...


COMMANDS: Mapping[str, Command] = {
    "check": check,
    "merge": merge,
    "runs": runs,
    "show": show,
    "samples": samples,
    "compare": compare,
    "gate": gate,
    "export": export,
    "report": report,
    "view": view,
    "new": new,
}
"""By the name of the command, in the order of ``kshot --help``."""
