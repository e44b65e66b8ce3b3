"""The worker of config files: confines itself, runs the file, then answers calls of what the file defined.

Runs inside the confined process. Requests come as lines of JSON on standard input, answers go out as lines of JSON.
While it works on a request it may ask for files of the project; the next line is then what it asked for.
"""

from __future__ import annotations

import json
import os
import sys

from kshot.configs._files import RequestedFiles
from kshot.configs._language import Interpreter
from kshot.configs._reader import RestrictedInterpreter
from kshot.sandbox._confinement import confine, enter_child, read_job, write_answer

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO, NoReturn


def main() -> NoReturn:
    """Read the job, confine this process, and answer requests until the pipe is closed."""
    job, requests, channel = read_job()
    sys.path[:] = [folder for folder in sys.path if folder]
    apart = enter_child(job)
    current: dict[str, Any] = {"id": 0}
    libraries = [f"{prefix}/{name}" for prefix in (sys.prefix, sys.base_prefix) for name in ("lib", "lib64")]
    own = [*libraries, os.path.dirname(os.__file__), job["folder"], "/dev", "/proc"]  # noqa: PTH120 - pathlib takes long to load
    lacking = confine(job, _refusal_report(channel, current), apart=apart)
    # Where nothing holds a config back, no Python of it is run, and every file comes from the parent.
    files = RequestedFiles(_file_requests(requests, channel, current), job["cwd"], [] if lacking else own)
    files.serve()
    language = RestrictedInterpreter if lacking else Interpreter
    interpreter = language(job["path"], files, job["search_folders"], lacking)
    for line in iter(requests.readline, b""):
        request = json.loads(line)
        current["id"] = request["id"]
        write_answer(channel, interpreter.answer(request))
    os._exit(0)


def _file_requests(requests: BinaryIO, channel: int, current: dict[str, Any]) -> Callable[[list[Any]], dict[str, Any]]:
    """Return the function that asks the parent for a file."""
    dumps, loads = json.dumps, json.loads  # a config may replace the others

    def ask(wanted: list[Any]) -> dict[str, Any]:
        write_answer(channel, dumps({"id": current["id"], "wants": wanted}))
        answer: dict[str, Any] = loads(requests.readline())
        return answer

    return ask


def _refusal_report(channel: int, current: dict[str, Any]) -> Callable[[str], None]:
    """Return the function that answers the current request with a refusal."""
    write, dumps = os.write, json.dumps

    def report(text: str) -> None:
        fault = {"kind": "PermissionError", "message": text, "file": "", "line": 0}
        write(channel, dumps({"id": current["id"], "fault": fault}).encode("ascii") + b"\n")

    return report
