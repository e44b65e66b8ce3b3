"""Run code that is not trusted, in a process that can do no harm.

Several layers confine it. Each works by itself where the others are missing:

- a fresh process with a clean environment, in a temporary folder that is removed afterwards;
- limits on time, memory, file size and open files (``setrlimit``);
- Linux namespaces: no network, a read-only file system, and a process tree that dies as one;
- Landlock: nothing outside the folder can be written or deleted, no TCP;
- seccomp: no new processes or programs, no sockets, no signals to others;
- a Python audit hook that refuses the same on every platform.

A layer that the kernel or a container refuses is left out. The hook alone stops programs that misbehave, but not those
made to defeat it: run hostile code on Linux. A program can read every file that the user who runs kshot can read.
"""

from __future__ import annotations

import json
import math
import secrets
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BufferedReader

from kshot.sandbox.process import ConfinedProcess
from kshot.sandbox.profiles import LAYERS, PROGRAM

MEMORY_MB = PROGRAM.limits.memory_mb
_WORKER = "kshot.sandbox._program_worker"
_MAX_REPORT_BYTES = 65536
_GRACE_SECONDS = 5.0
"""What starting and cleaning up may take beyond the time limit."""


@dataclass(frozen=True, slots=True)
class ProgramOutcome:
    """Whether a program ran to its end without an error, and if not, why."""

    passed: bool
    reason: str


def run(
    program: str, timeout: float = 10.0, memory_mb: int = MEMORY_MB, *, layers: Sequence[str] = LAYERS
) -> ProgramOutcome:
    """Run a Python program. It passes when it reaches its last line within the limits.

    Leaving early by ``sys.exit`` is no pass: a pass is reported with a random token that the program never sees.
    """
    token = secrets.token_hex(16)
    job = {"program": program, "token": token, "seconds": timeout}
    limits = replace(PROGRAM.limits, memory_mb=memory_mb, cpu_seconds=math.ceil(timeout) + 1)
    process = ConfinedProcess(PROGRAM, _WORKER, job, layers=layers, limits=limits)
    try:
        report = _report_of(process, timeout + _GRACE_SECONDS)
    finally:
        process.end()
    text = report.decode("utf-8", "replace")
    if f"{token} passed" in text:
        return ProgramOutcome(passed=True, reason="")
    return ProgramOutcome(passed=False, reason=_reason_in(text) or "the program ended before its last line")


def _reason_in(report: str) -> str:
    """Return the reason in the last line that reports a failure; a program may have written other lines itself."""
    for line in reversed(report.split("\n")):
        verb, _, quoted = line.partition(" ")
        if verb == "failed":
            with suppress(ValueError, RecursionError):
                reason = json.loads(quoted)
                return reason.encode("utf-8", "replace").decode().strip() if isinstance(reason, str) else ""
    return ""


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
        while chunk := pipe.read1(_MAX_REPORT_BYTES):
            report += chunk[: max(0, _MAX_REPORT_BYTES - len(report))]
