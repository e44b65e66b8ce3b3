"""The worker of ``sandbox.program``: two confined processes, one with the program and one with the tests.

The first process confines nothing and runs nothing of others. It forks the supervisor of the program, then the judge.
Only then are the tests read, by the judge alone: no process that runs the program, or a parent of one, ever has them.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import pairwise

from kshot.sandbox._confinement import confine, enter_child, taken_streams
from kshot.sandbox._judge_end import JudgeEnd
from kshot.sandbox._peer import Ended
from kshot.sandbox._program_end import ProgramEnd
from kshot.sandbox._tests_code import BrokenTests
from kshot.sandbox._wire import MAX_REPORT_BYTES, read_exactly, write_frame

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

_MAX_REASON_LETTERS = 300
_OPEN_FILES = 64
"""More than this process has open; the limit of a confined one is higher."""


def main() -> NoReturn:
    """Read the job from standard input, have its program judged, and leave."""
    source, channel = taken_streams()
    job = json.loads(read_exactly(source, int(_line(source))))
    from_program, to_judge = os.pipe()
    from_judge, to_program = os.pipe()
    for name in ("program", "tests"):
        os.mkdir(f"{job['folder']}/{name}")  # noqa: PTH102 - pathlib takes long to load
    if os.fork() == 0:
        _keep_open(from_judge, to_judge)
        _serve_program(job, from_judge, to_judge)
    del job["program"]
    _keep_open(source, channel, from_program, to_program)
    apart = enter_child(job, seconds=job["seconds"], report=lambda *told: _report(channel, *told))
    rest = b"".join(iter(lambda: os.read(source, 1 << 16), b""))
    proof, tests, expression = json.loads(json.loads(rest))
    _keep_open(channel, from_program, to_program)
    judge = JudgeEnd(from_program, to_program)
    asked = (lambda: judge.run(tests)) if expression is None else (lambda: judge.value(expression))
    _judge(_confined_in(job, "tests"), asked, (channel, proof), apart=apart)


def _serve_program(job: dict[str, Any], reader: int, writer: int) -> NoReturn:
    """Run the program in a confined child, and answer what the judge asks."""

    def end(verdict: str, reason: str) -> None:
        try:
            write_frame(writer, {"ended": reason, "verdict": verdict})
        except OSError:  # the judge has ended
            os._exit(1)

    apart = enter_child(job, seconds=job["seconds"], report=end)
    program = ProgramEnd(reader, writer, job.pop("program"))
    try:
        if confine(_confined_in(job, "program"), lambda text: end("failed", text), apart=apart) and not job["unsafe"]:
            os._exit(1)  # the judge says why
        program.run()
    finally:
        os._exit(1)


def _judge(job: dict[str, Any], asked: Callable[[], Any], verdict: tuple[int, str], *, apart: bool) -> NoReturn:
    """Run the tests in this process, confined, and report whether they passed, or ask for a value and report that.

    ``verdict`` is where to write it, and the proof that a pass is the judge's: a secret that kshot makes for each run.
    """
    channel, proof = verdict
    try:
        lacking = confine(job, lambda text: _report(channel, "failed", text), apart=apart)
        if lacking and not job["unsafe"]:
            _report(channel, "lacking", lacking)
            os._exit(1)
        sys.argv[:] = ["tests.py"]
        sys.path[:] = [folder for folder in sys.path if folder]
        _report(channel, "passed", proof, asked())
        os._exit(0)
    except BrokenTests as error:
        _report(channel, "broken", str(error))
    except SystemExit:
        _report(channel, "failed", "SystemExit ended the program before its last line")
    except Ended as error:
        _report(channel, "timeout" if error.timed_out else "failed", str(error))
    except AssertionError as error:
        _report(channel, "wrong", _described(error))
    except TimeoutError as error:
        _report(channel, "timeout", _described(error))
    except BaseException as error:  # noqa: BLE001 - tests that raise anything have failed
        _report(channel, "failed", _described(error))
    finally:
        os._exit(1)


def _report(channel: int, verdict: str, reason: str, value: Any = None) -> None:
    """Write the verdict, a line of JSON. No process that runs the program has this descriptor."""
    line = json.dumps([verdict, reason[:_MAX_REASON_LETTERS], value]).encode("ascii") + b"\n"
    if len(line) > MAX_REPORT_BYTES:
        raise ValueError(f"the value takes more than {MAX_REPORT_BYTES >> 10} KB")
    os.write(channel, line)


def _described(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}".rstrip(": ")
    except BaseException:  # noqa: BLE001 - its own __str__ may raise anything
        return type(error).__name__


def _confined_in(job: dict[str, Any], name: str) -> dict[str, Any]:
    folder = f"{job['folder']}/{name}"
    os.environ.update(HOME=folder, TMPDIR=folder)
    os.environ.pop("PWD", None)  # bwrap's
    return {**job, "folder": folder, "cwd": folder}


# ---- descriptors ----


def _keep_open(*descriptors: int) -> None:
    edges = [2, *sorted(descriptors), _OPEN_FILES]
    for below, above in pairwise(edges):
        os.closerange(below + 1, above)


def _line(source: int) -> bytes:
    return b"".join(iter(lambda: os.read(source, 1), b"\n"))
