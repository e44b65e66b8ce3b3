"""Run code that nobody has read, in a process that can do no harm.

Several layers, each of which stands by itself where the others are missing:

- a fresh process with a clean environment, in a temporary directory that is removed afterwards;
- limits on time, memory, file size and open files (``setrlimit``);
- Linux namespaces: no network, a read-only file system, and a process tree that dies as one;
- Landlock: nothing outside the directory can be written or deleted, no TCP;
- seccomp: no new processes or programs, no sockets, no signals to others;
- a Python audit hook that refuses the same on every platform.

A layer that the kernel or a container refuses is left out. The hook alone stops programs that misbehave, not
ones made to defeat it: run hostile code on Linux. Files can be read, as far as the user who runs kshot may.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

MEMORY_MB = 1024
LAYERS = ("namespaces", "landlock", "seccomp", "guard")
_FILE_MB = 16
_REPORT_BYTES = 65536
_GRACE = 5.0  # seconds beyond the time limit, for starting and cleaning up
_BOOT = (
    "import sys; from importlib.machinery import SourceFileLoader as L; "
    "from importlib.util import spec_from_loader as s, module_from_spec as m; "
    "l = L('kshot_worker', sys.argv[1]); j = m(s('kshot_worker', l)); l.exec_module(j); j.main()"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a program ran to its end without an error, and if not, why."""

    passed: bool
    reason: str


def run(program: str, timeout: float = 10.0, memory_mb: int = MEMORY_MB, *, layers: Sequence[str] = LAYERS) -> Outcome:
    """Run a Python program; it passes when its last line has been reached within the limits.

    Leaving early by ``sys.exit`` is no pass: the end is reported under a random word that the program is not told.
    """
    nonce = secrets.token_hex(16)
    folder = Path(tempfile.mkdtemp(prefix="kshot-run-")).resolve()
    job = {
        "program": program,
        "nonce": nonce,
        "folder": str(folder),
        "timeout": timeout,
        "cpu_seconds": math.ceil(timeout) + 1,
        "memory": memory_mb << 20,
        "file_size": _FILE_MB << 20,
        "layers": list(layers),
    }
    try:
        report = _report_of(job, folder, timeout + _GRACE)
    finally:
        _remove(folder)
    return _outcome(report, nonce)


def _report_of(job: dict[str, Any], folder: Path, patience: float) -> bytes:
    with tempfile.TemporaryFile() as told:
        # backslash escapes carry lone surrogates, which no encoding would
        told.write(json.dumps(job).encode("ascii"))
        told.seek(0)
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
            [sys.executable, "-s", "-B", "-c", _BOOT, str(Path(__file__).with_name("_program_worker.py"))],
            stdin=told,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=_environment(folder),
            start_new_session=True,
        )
    kept = bytearray()
    assert process.stdout is not None  # noqa: S101 - for the type checker: it is a pipe
    reader = threading.Thread(target=_drain, args=(process.stdout, kept), daemon=True)
    reader.start()
    try:
        reader.join(patience)
    finally:
        _end(process)
        reader.join(1.0)
    return bytes(kept)


def _drain(pipe: IO[bytes], kept: bytearray) -> None:
    """Read to the end, so that nobody blocks, and keep only so much."""
    with pipe:
        while chunk := pipe.read1(_REPORT_BYTES):  # type: ignore[attr-defined]
            kept += chunk[: max(0, _REPORT_BYTES - len(kept))]


def _end(process: subprocess.Popen[bytes]) -> None:
    # Before it is waited for, its number cannot have gone to anyone else.
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
    else:
        process.kill()
    process.wait()


def _environment(folder: Path) -> dict[str, str]:
    clean = {
        "PATH": os.defpath,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",  # the order of sets must not decide who passes
        "PYTHONUTF8": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    return clean | {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}


def _outcome(report: bytes, nonce: str) -> Outcome:
    said = report.decode("utf-8", "replace")
    if f"{nonce} passed" in said:
        return Outcome(passed=True, reason="")
    _, _, reason = said.rpartition("failed ")
    return Outcome(passed=False, reason=reason.strip() or "ended before the tests were through")


def _remove(folder: Path) -> None:
    """Remove the directory, whatever permissions the program left in it."""
    waiting = [folder]
    while waiting:
        inner = waiting.pop()
        try:
            inner.chmod(stat.S_IRWXU)
            waiting += [Path(entry) for entry in os.scandir(inner) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
    shutil.rmtree(folder, ignore_errors=True)
