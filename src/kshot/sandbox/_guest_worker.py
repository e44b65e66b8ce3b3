"""The worker of guests: functions and classes of another project, called with batches of plain data.

Runs inside the confined process. Requests come as lines of JSON on standard input, answers go out as lines of JSON. The
job names an adapter, a module of kshot that knows the project: what stands in for its packages, and what can be asked.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback

from kshot.sandbox import _guest_processes
from kshot.sandbox._confinement import confine, enter_child, read_job
from kshot.sandbox._guest_deferred import MissingPackage
from kshot.sandbox._guest_imports import ProjectImporter
from kshot.sandbox._guest_project import GuestProject
from kshot.sandbox._guest_values import plain, restored

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

_MAX_MESSAGE_LETTERS = 2000
_MAX_CAUSES = 50


def main() -> NoReturn:
    """Read the job, confine this process, and answer requests until the pipe is closed."""
    job, requests, channel = read_job()
    sys.path[:] = [folder for folder in sys.path if folder]
    apart = enter_child(job)
    adapter = importlib.import_module(job["adapter"])
    lacking = confine(job, lambda _: None, apart=apart)
    actions: dict[str, Callable[..., Any]] = {}
    for line in iter(requests.readline, b""):
        request = restored(json.loads(line))
        if not lacking and not actions:
            actions = _actions(adapter, job)
        _write(channel, _answer(request, actions, job, lacking))
    os._exit(0)


def _actions(adapter: Any, job: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """Prepare for the project: nothing of it runs before this process is confined."""
    _guest_processes.install()
    project = GuestProject(job["packages"])
    importer = ProjectImporter(project, stand_ins=adapter.stand_ins(), deferred=frozenset(adapter.DEFERRED))
    actions: dict[str, Callable[..., Any]] = adapter.actions(importer, job)
    return actions


def _answer(
    request: dict[str, Any], actions: dict[str, Callable[..., Any]], job: dict[str, Any], lacking: str
) -> bytes:
    number = request.pop("id")
    dumps = json.dumps
    try:
        action = actions[request.pop("action")] if not lacking else _not_confined(lacking)
        result = plain(action(**request), tuples=job["tuples"])
        return dumps({"id": number, "result": result}).encode("ascii") + b"\n"
    except BaseException as error:  # noqa: BLE001 - whatever the project raises is told
        told = fault(error, (*job["packages"].values(), *job["readable"]))
        return dumps({"id": number, "fault": told}).encode("ascii") + b"\n"


class _NotConfinedError(Exception):
    """This system cannot confine a process."""


def _not_confined(lacking: str) -> NoReturn:
    raise _NotConfinedError(lacking)


def fault(error: BaseException, places: tuple[str, ...]) -> dict[str, Any]:
    """Describe an exception: its class, its message, and the innermost line in the project's places that it passed."""
    file, line = "", 0
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename.startswith(places):
            file, line = frame.f_code.co_filename, number
    kind = type(error).__name__
    try:
        message = str(error)
    except BaseException:  # noqa: BLE001 - its __str__ may raise, too
        message = ""
    missing = error if isinstance(error, ImportError) else error.__cause__
    if isinstance(missing, (MissingPackage, ModuleNotFoundError)) and missing.name:
        kind, message = "MissingPackage", missing.name.partition(".")[0]
    elif isinstance(error, _NotConfinedError):
        kind = "NotConfined"
    return {
        "kind": kind,
        "message": message[:_MAX_MESSAGE_LETTERS],
        "file": file,
        "line": line,
        "refused": _is_refusal(error),
    }


def _is_refusal(error: BaseException) -> bool:
    """Whether it is, or arose from, an error of the system: packages wrap those of the network in their own."""
    seen: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if seen is None or isinstance(seen, OSError):
            break
        seen = seen.__cause__ or seen.__context__
    return isinstance(seen, OSError)


def _write(channel: int, answer: bytes) -> None:
    view = memoryview(answer)
    while view:
        view = view[os.write(channel, view) :]
