"""Answering requests, one line of JSON each way. Runs inside the confined process; see ``sandbox.kept_process``."""

from __future__ import annotations

import json
import os
import signal

from kshot.sandbox._confinement import confine, enter_child, read_job

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

_MAX_MESSAGE_LETTERS = 300


class NotConfinedError(Exception):
    """This system cannot confine the process, and what it is asked for calls for that."""


def serve(prepare: Callable[[dict[str, Any]], Callable[[dict[str, Any], str], Any]], *, confined: bool) -> NoReturn:
    """Read the job, prepare, confine this process, and answer requests until the pipe is closed.

    ``prepare`` imports what is needed while that is allowed, and returns the function that answers a request; this also
    gets what the system lacks to confine the process ("" if nothing). ``confined``: it is never called without.
    """
    job, requests, channel = read_job()
    apart = enter_child(job)
    answer = prepare(job)
    current = {"id": 0}

    def give_up(*_: object) -> NoReturn:
        # The default of the signal would not end the first process of a namespace.
        _write(channel, {"id": current["id"], "fault": _fault("TooSlow", "")})
        os._exit(1)

    if hasattr(signal, "setitimer"):  # not on Windows, where the caller's clock alone counts
        signal.signal(signal.SIGPROF, give_up)
    lacking = confine(job, lambda _: None, apart=apart)
    for line in iter(requests.readline, b""):
        request = json.loads(line)
        current["id"] = request.pop("id")
        _write(channel, {"id": current["id"], **_told(answer, request, lacking, confined=confined)})
    os._exit(0)


def limit(seconds: float) -> None:
    """End this process after so many seconds of processor time; 0: it may go on."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _told(
    answer: Callable[[dict[str, Any], str], Any], request: dict[str, Any], lacking: str, *, confined: bool
) -> dict[str, Any]:
    if lacking and confined:
        return {"fault": _fault(NotConfinedError.__name__, lacking)}
    try:
        return {"result": None if "start" in request else answer(request, lacking)}
    except Exception as error:  # noqa: BLE001 - whatever the request leads to is told
        return {"fault": _fault(type(error).__name__, str(error))}
    finally:
        limit(0)


def _fault(kind: str, message: str) -> dict[str, Any]:
    return {"kind": kind, "message": message[:_MAX_MESSAGE_LETTERS], "file": "", "line": 0}


def _write(channel: int, answer: dict[str, Any]) -> None:
    data = json.dumps(answer).encode("ascii") + b"\n"
    while data:
        data = data[os.write(channel, data) :]
