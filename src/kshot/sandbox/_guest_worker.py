"""What ``sandbox.guest`` calls: the actions of an adapter, with batches of plain data.

Runs inside the confined process. The adapter is a module of kshot that knows a project: what stands in for its
packages, and what can be asked of it. Nothing of the project runs before the process is confined.
"""

from __future__ import annotations

import importlib

from kshot.sandbox import _guest_processes
from kshot.sandbox._guest_imports import ProjectImporter
from kshot.sandbox._guest_project import GuestProject
from kshot.sandbox._guest_values import plain, restored

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_PREPARED: dict[str, Any] = {}
_ACTIONS: dict[str, Callable[..., Any]] = {}


def prepare(job: dict[str, Any]) -> None:
    """Import the adapter that the job names."""
    _PREPARED.update(job=job, adapter=importlib.import_module(job["adapter"]))


def act(action: str, given: dict[str, Any]) -> Any:
    """Return the plain form of what an action returns; the first call prepares for the project."""
    if not _ACTIONS:
        _ACTIONS.update(_actions(**_PREPARED))
    return plain(_ACTIONS[action](**restored(given)), tuples=_PREPARED["job"]["tuples"])


def _actions(job: dict[str, Any], adapter: Any) -> dict[str, Callable[..., Any]]:
    _guest_processes.install()
    project = GuestProject(job["packages"])
    importer = ProjectImporter(project, stand_ins=adapter.stand_ins(), deferred=frozenset(adapter.DEFERRED))
    actions: dict[str, Callable[..., Any]] = adapter.actions(importer, job)
    return actions
