"""The worker of config files: confines itself, runs the file, then answers calls of what the file defined.

Runs inside the confined process. Requests come as lines of JSON on standard input, answers go out as lines of JSON.
"""

from __future__ import annotations

import json
import os
import sys

from kshot.configs._language import Interpreter
from kshot.sandbox._confinement import confine, enter_child, read_job

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


def main() -> NoReturn:
    """Read the job, confine this process, and answer requests until the pipe is closed."""
    job, requests, channel = read_job()
    sys.path[:] = [folder for folder in sys.path if folder]
    apart = enter_child(job)
    interpreter = Interpreter(job["path"], job["search_folders"])
    current: dict[str, Any] = {"id": 0}
    confine(job, _refusal_report(channel, current), apart=apart)
    for line in iter(requests.readline, b""):
        request = json.loads(line)
        current["id"] = request["id"]
        _write(channel, interpreter.answer(request).encode("ascii") + b"\n")
    os._exit(0)


def _write(channel: int, answer: bytes) -> None:
    while answer:
        answer = answer[os.write(channel, answer) :]


def _refusal_report(channel: int, current: dict[str, Any]) -> Callable[[str], None]:
    """Return the function that answers the current request with a refusal."""
    write, dumps = os.write, json.dumps

    def report(text: str) -> None:
        fault = {"kind": "PermissionError", "message": text, "file": "", "line": 0}
        write(channel, dumps({"id": current["id"], "fault": fault}).encode("ascii") + b"\n")

    return report
