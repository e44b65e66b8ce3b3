"""The worker of ``sandbox.calls``: calls one function with plain values, one line of JSON each way.

Runs inside the confined process. A request is a batch of calls; its answer has an entry for each: ``value``, ``fault``
(the function raised an exception), or ``slow``. A call that has used up its processor time ends the process, so that
``slow`` is the last entry.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys

from kshot.sandbox._confinement import confine, enter_child, read_job, write_answer
from kshot.sandbox._guest_deferred import MissingPackage

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO, NoReturn

_MAX_MESSAGE_LETTERS = 2000
_MAX_CAUSES = 50
_HAS_TIMERS = hasattr(signal, "setitimer")
"""Not on Windows, where the caller's clock alone counts."""


def main() -> NoReturn:
    """Read the job, import the function, confine this process, and answer requests until the pipe is closed.

    ``prepare`` of the function's module, where there is one, gets the job while this process may still do everything.
    """
    job, requests, channel = read_job()
    sys.path[:] = [folder for folder in sys.path if folder]
    apart = enter_child(job)
    module_name, _, name = job["function"].partition(":")
    module = importlib.import_module(module_name)
    if hasattr(module, "prepare"):
        module.prepare(job)
    function = getattr(module, name)
    lacking = confine(job, lambda _: None, apart=apart)
    _serve(function, tuple(job["readable"]), requests, channel, lacking=lacking if job["confined"] else "")
    os._exit(0)


def _serve(
    function: Callable[..., Any], places: tuple[str, ...], requests: BinaryIO, channel: int, *, lacking: str
) -> None:
    """Answer requests. ``lacking``: what the system lacks to confine this process; then nothing is called."""
    number = 0
    done: list[str] = []

    def give_up(*_: object) -> NoReturn:
        # The default of the signal would not end the first process of a namespace.
        _answer(channel, number, [*done, '{"slow": true}'])
        os._exit(1)

    if _HAS_TIMERS:
        signal.signal(signal.SIGPROF, give_up)
    for line in iter(requests.readline, b""):
        request = json.loads(line)
        number, done = request["id"], []
        if lacking:
            told = {"kind": "NotConfined", "message": lacking}
            write_answer(channel, json.dumps({"id": number, "fault": told}))
            continue
        for args in request["calls"]:
            done.append(_called(function, args, request["seconds"], places))
        _answer(channel, number, done)


def _called(function: Callable[..., Any], args: list[Any], seconds: float, places: tuple[str, ...]) -> str:
    """Return the entry for one call; ``seconds``: of processor time, after which this process ends. 0: no limit."""
    dumps = json.dumps  # the function may replace it
    try:
        _limit(seconds)
        return dumps({"value": function(*args)})
    except BaseException as error:  # noqa: BLE001 - whatever it raises is told
        return dumps({"fault": fault(error, places)})
    finally:
        _limit(0)


def _limit(seconds: float) -> None:
    if _HAS_TIMERS:
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _answer(channel: int, number: int, entries: list[str]) -> None:
    write_answer(channel, f'{{"id": {number}, "result": [{", ".join(entries)}]}}')


def fault(error: BaseException, places: tuple[str, ...]) -> dict[str, Any]:
    """Describe an exception: its class, its message, and the innermost line in these places that it passed."""
    file, line = "", 0
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename.startswith(places):
            file, line = step.tb_frame.f_code.co_filename, step.tb_lineno
        step = step.tb_next
    try:
        message = str(error)
    except BaseException:  # noqa: BLE001 - its __str__ may raise, too
        message = ""
    origin = error if isinstance(error, ImportError) else error.__cause__
    missing = origin.name if isinstance(origin, (MissingPackage, ModuleNotFoundError)) else None
    return {
        "kind": type(error).__name__,
        "message": message[:_MAX_MESSAGE_LETTERS],
        "file": file,
        "line": line,
        "refused": _is_refusal(error),
        "missing": (missing or "").partition(".")[0],
    }


def _is_refusal(error: BaseException) -> bool:
    """Whether it is, or arose from, an error of the system: packages wrap those of the network in their own."""
    seen: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if seen is None or isinstance(seen, OSError):
            break
        seen = seen.__cause__ or seen.__context__
    return isinstance(seen, OSError)
