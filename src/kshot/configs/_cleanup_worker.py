"""The worker of clean-ups: calls kshot's own functions with options that a config gives, such as regular expressions.

Runs inside a confined process, which can be killed. A pattern may take longer than the age of the universe: the process
ends when it has used up its processor time (``re`` looks for signals while it searches).
"""

from __future__ import annotations

import json
import os
import signal

from kshot.cleanups.config_names import CLEANUP_FUNCTIONS
from kshot.sandbox._confinement import confine, enter_child, read_job

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from typing import Any, NoReturn


def main() -> NoReturn:
    """Read the job, confine this process, and answer requests until the pipe is closed."""
    job, requests, channel = read_job()
    apart = enter_child(job)
    functions = CLEANUP_FUNCTIONS
    if hasattr(signal, "setitimer"):  # not on Windows, where the caller's clock alone counts
        signal.signal(signal.SIGPROF, lambda *_: os._exit(1))
    confine(job, lambda _: None, apart=apart)
    for line in iter(requests.readline, b""):
        answer = _answer(json.loads(line), functions, job["seconds"])
        data = json.dumps(answer).encode("ascii") + b"\n"
        while data:
            data = data[os.write(channel, data) :]
    os._exit(0)


def _answer(request: dict[str, Any], functions: dict[str, Any], seconds: float) -> dict[str, Any]:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return {"id": request["id"], "result": functions[request["name"]](request["text"], **request["options"])}
    except Exception as error:  # noqa: BLE001 - whatever the options lead to is told
        fault = {"kind": type(error).__name__, "message": str(error)[:300], "file": "", "line": 0}
        return {"id": request["id"], "fault": fault}
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_PROF, 0)
