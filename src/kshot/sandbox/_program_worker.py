"""The worker of ``sandbox.program``: confines itself, runs one program, and reports how the program ended."""

from __future__ import annotations

import os
import sys
from json.encoder import encode_basestring_ascii as quoted

from kshot.sandbox._confinement import confine, enter_child, read_job

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any, NoReturn

_MAX_REASON_LETTERS = 300


def main() -> NoReturn:
    """Read the job from standard input, run its program, and leave."""
    job, requests, channel = read_job()
    requests.close()  # its file holds the token
    del requests
    apart = enter_child(job, seconds=job["seconds"], report=lambda reason: _report_failure(channel, reason))
    try:
        # What reports a pass lies on the interpreter's stack while the program runs: in no variable of any frame.
        _confined(job, channel, apart=apart)(
            exec(*_compiled(job))  # type: ignore[func-returns-value]  # noqa: S102 - it returns None; running it is the purpose
        )
    except SystemExit:
        _report_failure(channel, "SystemExit ended the program before its last line")
    except BaseException as error:  # noqa: BLE001 - a program that raises anything has failed
        _report_failure(channel, _described(error))
    os._exit(1)


def _confined(job: dict[str, Any], channel: int, *, apart: bool) -> Callable[[None], None]:
    """Confine this process, and return the function that reports a pass."""
    write, leave, quote, proof = os.write, os._exit, quoted, f"{job.pop('token')} passed\n".encode()

    def report_refusal(text: str) -> None:
        write(channel, f"failed {quote(text)}\n".encode())

    def passed(_: None) -> None:
        write(channel, proof)
        leave(0)

    confine(job, report_refusal, apart=apart)
    return passed


def _report_failure(channel: int, reason: str) -> None:
    """Report a failure: a line with the reason as a JSON string.

    It needs no proof: a program that reports one of itself gains nothing.
    """
    os.write(channel, f"failed {quoted(reason[:_MAX_REASON_LETTERS])}\n".encode())


def _described(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}".rstrip(": ")
    except BaseException:  # noqa: BLE001 - its own __str__ may raise anything
        return type(error).__name__


def _compiled(job: dict[str, Any]) -> tuple[CodeType, dict[str, Any]]:
    """Return code and namespace. The module is not ``__main__``: the program's own demonstration is not the test."""
    module = type(sys)("program")
    sys.modules["program"] = module
    sys.argv[:] = ["program.py"]
    sys.path[:] = ["", *(folder for folder in sys.path if folder)]  # a program may import what it has written
    return compile(job.pop("program"), "program.py", "exec", dont_inherit=True), vars(module)
