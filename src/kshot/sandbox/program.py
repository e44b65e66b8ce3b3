"""Run a program that is not trusted, against tests or for a value, in processes that can do no harm.

The program runs in one process, the tests in another. The tests call the program's functions over a pipe, with plain
data: the program never has the tests, what they expect, or a way to write the verdict. Several layers confine both:

- a fresh process with a clean environment, in a temporary folder that is removed afterwards;
- limits on time, memory, file size and open files (``setrlimit``);
- Linux namespaces: no network, a file system of its own with Python and an empty folder, a process tree that dies as
  one (by ``bwrap`` where it is installed, else by kshot itself);
- Landlock: nothing outside the folder can be written, nothing but Python's files can be read, no TCP;
- seccomp: a list of allowed system calls: no new processes or programs, no sockets, no signals to others;
- a Python audit hook that refuses the same on every platform; nothing rests on it.

seccomp must be there, and Landlock or namespaces; else nothing runs, unless the user wants it nevertheless.
"""

from __future__ import annotations

import builtins
import json
import math
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kshot.core.errors import KshotError, UsageError
from kshot.core.records import AskFailed, Failed
from kshot.core.visible import ADDRESS, OBJECT
from kshot.sandbox._wire import MAX_REPORT_BYTES, Decoder, Garbled
from kshot.sandbox.process import LAYERS, PROGRAM, ConfinedProcess

MEMORY_MB = PROGRAM.limits.memory_mb
UNSAFE_NOTE = "--unsafe-programs: programs that a model wrote may have run without protection by the kernel"
_WORKER = "kshot.sandbox._program_worker"
_GRACE_SECONDS = 5.0
"""What starting and cleaning up may take beyond the time limit."""
_UNSAFE: ContextVar[bool | None] = ContextVar("unsafe_programs", default=None)
_ENDED = "the program ended before its last line"


FailureKind: TypeAlias = Literal["wrong", "timeout", "failed"]
"""How a program fails: it gives wrong answers, takes too long, or anything else."""


@dataclass(frozen=True, slots=True)
class ProgramOutcome:
    """Whether a program passed its tests, and if not, why and how; ``failure`` is None where it passed."""

    passed: bool
    reason: str
    failure: FailureKind | None = None


def run(
    program: str,
    tests: str = "",
    timeout: float = 10.0,
    memory_mb: int = MEMORY_MB,
    *,
    layers: Sequence[str] = LAYERS,
    unsafe: bool = False,
) -> ProgramOutcome:
    """Run a Python program, then tests of what it defines. It passes when the tests reach their last line in time.

    ``unsafe``: run it also where the system lacks the layers that a stranger's code calls for.
    """
    how: dict[str, Any] = {"timeout": timeout, "memory_mb": memory_mb, "layers": layers, "unsafe": unsafe}
    verdict, reason, _ = _judged(program, tests, None, **how)
    if verdict == "passed":
        return ProgramOutcome(passed=True, reason="")
    failures: dict[str, FailureKind] = {"wrong": "wrong", "timeout": "timeout"}
    return ProgramOutcome(passed=False, reason=reason, failure=failures.get(verdict, "failed"))


def value_of(
    program: str,
    expression: str,
    timeout: float = 10.0,
    memory_mb: int = MEMORY_MB,
    *,
    layers: Sequence[str] = LAYERS,
    unsafe: bool = False,
) -> Any:
    """Return the value that an expression has after a Python program: plain data, and the texts of other objects.

    ``core.visible.OBJECT`` stands for an object whose text has an address.

    It raises what the two raise, under its built-in class, ``TimeoutError`` where they take too long, and
    ``RuntimeError`` where there is no value for another reason.
    """
    how: dict[str, Any] = {"timeout": timeout, "memory_mb": memory_mb, "layers": layers, "unsafe": unsafe}
    verdict, reason, told = _judged(program, "", expression, **how)
    if verdict == "timeout":
        raise TimeoutError(reason)
    if verdict != "passed":
        raise RuntimeError(reason)
    if "raised" in told:
        raise _raised(*told["raised"])
    try:
        return Decoder(told["table"], _text_of_object).value(told["value"])
    except Garbled as error:
        raise RuntimeError(f"the program gave {error}") from None


def _judged(
    program: str,
    tests: str,
    expression: str | None,
    *,
    timeout: float,
    memory_mb: int,
    layers: Sequence[str],
    unsafe: bool,
) -> tuple[str, str, dict[str, Any]]:
    """Run a program with tests, or for the value of an expression; return the verdict, why, and the value's message."""
    wrapper = bubblewrap() if "namespaces" in layers else None
    if wrapper is not None:
        layers = [layer for layer in layers if layer != "namespaces"]  # it has made them
    job = {"program": program, "seconds": timeout, "unsafe": unsafe, "in_bubblewrap": wrapper is not None}
    limits = replace(PROGRAM.limits, memory_mb=memory_mb, cpu_seconds=math.ceil(timeout) + 1)
    proof = secrets.token_hex(16)
    try:
        process = ConfinedProcess(
            *(PROGRAM, _WORKER, job),
            layers=layers,
            limits=limits,
            held_back=json.dumps([proof, tests, expression]),
            command_before=wrapper,
        )
    except TimeoutError:  # an alarm of the caller's
        raise
    except OSError as error:
        raise _no_process(error) from error
    try:
        report = _report_of(process, timeout + _GRACE_SECONDS)
    finally:
        process.end()
    verdict, reason, told = _verdict_in(report)
    if verdict == "lacking":
        raise _refusal(reason)
    if verdict == "broken":
        raise AskFailed(Failed("tests", f"the tests of a program are not Python code: {reason}"))
    if verdict == "passed" and not secrets.compare_digest(reason.encode(), proof.encode()):
        return "failed", _ENDED, {}  # something wrote it in the judge's place
    return verdict, reason, told


def _raised(name: str, text: str) -> Exception:
    """Return what a program raised: an exception of Python's own class of this name."""
    text = _without_address(text)
    try:
        error: object = getattr(builtins, name)(text)
    except TypeError:  # a class that wants other arguments
        error = None
    return error if isinstance(error, Exception) else RuntimeError(f"{name}: {text}")


def _text_of_object(entry: list[Any]) -> str:
    tag, text = entry
    if tag != "object" or not isinstance(text, str):
        raise Garbled(f"the entry {entry!r:.20}")
    return _without_address(text)


def _without_address(text: str) -> str:
    return OBJECT if ADDRESS.search(text) else text


@contextmanager
def programs_wanted(*, unsafe: bool) -> Iterator[None]:
    """Say that programs may have to run within, and whether the user wants them to also where that is unsafe.

    Nothing but this says so: no dataset, config or run folder can.
    """
    token = _UNSAFE.set(unsafe)
    try:
        yield
    finally:
        _UNSAFE.reset(token)


def unsafe_allowed() -> bool:
    """Return whether the user wants programs to run also where that is unsafe."""
    return _UNSAFE.get() is True


def check() -> None:
    """Refuse a run whose programs this system cannot confine, before it asks a model."""
    if _UNSAFE.get() is False:
        _try_out()


def unsafe_notes() -> list[str]:
    """Return the note on programs that may run without protection: the user wants them to, and it is lacking here."""
    if not unsafe_allowed():
        return []
    try:
        _try_out()
    except UsageError:
        return [UNSAFE_NOTE]
    return []


@cache
def _try_out() -> None:
    run("", timeout=60.0)


def _refusal(lacking: str) -> UsageError:
    return UsageError(
        f"kshot does not run programs that a model wrote on this system, which lacks {lacking}",
        hint="Use Linux 6.2 or later, or a container that allows these. --unsafe-programs runs them with less "
        "protection: do so only on a machine that has nothing to lose.",
    )


def _no_process(error: OSError) -> KshotError:
    return KshotError(
        f"a process for a program cannot be started: {error}",
        hint="Free what is short (memory, processes, the temporary folder). The same command goes on.",
    )


def _verdict_in(report: bytes) -> tuple[str, str, dict[str, Any]]:
    """Return the first verdict: the judge's, or that of the process which waits for it."""
    try:
        verdict, reason, told = json.loads(report.split(b"\n")[0])
        return str(verdict), reason.encode("utf-8", "replace").decode().strip(), told or {}
    except (ValueError, TypeError, AttributeError):  # two texts and a message are expected
        return "failed", _ENDED, {}


def _report_of(process: ConfinedProcess, seconds: float) -> bytes:
    """Return what the process reports until it ends; after so many seconds it is killed."""
    report = bytearray()
    reader = threading.Thread(target=_drain, args=(process.stdout, report), daemon=True)
    reader.start()
    try:
        reader.join(seconds)
    finally:
        process.end()
        reader.join(1.0)
    return bytes(report)


def _drain(pipe: BufferedReader, report: bytearray) -> None:
    """Read to the end, so that the process never blocks, and keep the first bytes alone."""
    with pipe:
        while chunk := pipe.read1(MAX_REPORT_BYTES):
            report += chunk[: max(0, MAX_REPORT_BYTES - len(report))]


# ---- bwrap, where it is installed and works ----

_SECONDS = 20.0
_SYSTEM = (*("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo"),)
_SCRATCH_BYTES = 64 << 20
Command = Callable[[Path], Sequence[str]]


@cache
def bubblewrap() -> Command | None:
    """Return the function that gives the command for a folder; None: there is no bwrap that works here."""
    program = shutil.which("bwrap") if sys.platform == "linux" else None
    if program is None:
        return None

    def command(folder: Path) -> list[str]:
        shown = [option for path in (*_SYSTEM, *_python()) for option in ("--ro-bind-try", path, path)]
        # As process 1 the worker ends when all others have: nothing is left a moment longer.
        return [
            *(program, "--unshare-all", "--die-with-parent", "--as-pid-1", "--dev", "/dev", *shown),
            *("--size", str(_SCRATCH_BYTES), "--tmpfs", str(folder), "--chdir", str(folder), "--"),
        ]

    try:
        trial = [*command(Path(tempfile.gettempdir(), "kshot-trial")), sys.executable, "-I", "-S", "-c", ""]
        works = subprocess.run(trial, capture_output=True, timeout=_SECONDS, check=False).returncode == 0  # noqa: S603 - our own interpreter
    except (OSError, subprocess.TimeoutExpired):
        return None
    return command if works else None


def _python() -> list[str]:
    """Return what the interpreter and the worker consist of: folders that do not lie in each other, and a file."""
    executable = Path(sys.executable)
    own = {Path(prefix, name) for prefix in (sys.prefix, sys.base_prefix) for name in ("lib", "lib64", "pyvenv.cfg")}
    own |= {executable.parent, executable.resolve().parent, Path(__file__).parent}
    return sorted(str(path) for path in own if not own.intersection(path.parents))
