"""The worker of clean-ups: calls kshot's own functions with options that a config gives, such as regular expressions.

Runs inside a confined process, which can be killed. A pattern may take longer than the age of the universe: the process
says so and ends when it has used up its processor time (``re`` looks for signals while it searches).
"""

from __future__ import annotations

import importlib
import json
import os
import signal

from kshot.cleanups.config_names import SLOW_IMPORTS, cleanup_function
from kshot.sandbox._confinement import confine, enter_child, read_job

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


def main() -> NoReturn:
    """Read the job, confine this process, and answer requests until the pipe is closed."""
    job, requests, channel = read_job()
    apart = enter_child(job)
    find, request = cleanup_function, {"id": 0}

    def give_up(*_: object) -> NoReturn:
        _write(channel, {"id": request["id"], "fault": _fault("TooSlow", "")})
        os._exit(1)

    if hasattr(signal, "setitimer"):  # not on Windows, where the caller's clock alone counts
        signal.signal(signal.SIGPROF, give_up)
    confine(job, lambda _: None, apart=apart)
    for line in iter(requests.readline, b""):
        request = json.loads(line)
        _write(channel, _answer(request, find, job["seconds"]))
    os._exit(0)


def _write(channel: int, answer: dict[str, Any]) -> None:
    data = json.dumps(answer).encode("ascii") + b"\n"
    while data:
        data = data[os.write(channel, data) :]


def _fault(kind: str, message: str) -> dict[str, Any]:
    return {"kind": kind, "message": message[:300], "file": "", "line": 0}


def _answer(request: dict[str, Any], find: Callable[..., Any], seconds: float) -> dict[str, Any]:
    if request["name"] is None:  # the caller asks whether this process has started
        return {"id": request["id"], "result": None}
    try:
        function = find(request["name"], request["framework"])
        if function in SLOW_IMPORTS:
            importlib.import_module(SLOW_IMPORTS[function])
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_PROF, seconds)
        return {"id": request["id"], "result": function(request["text"], **request["options"])}
    except Exception as error:  # noqa: BLE001 - whatever the options lead to is told
        return {"id": request["id"], "fault": _fault(type(error).__name__, str(error))}
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_PROF, 0)
