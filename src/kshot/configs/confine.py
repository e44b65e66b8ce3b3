"""Run a config file in a process that can do no harm, and keep that process to call what the file defines.

The layers are those of ``kshot.sandbox.program``: namespaces, Landlock, seccomp, limits, and an audit hook. Beyond
them a config can read only Python itself and the folders of its own tree, and it sees none of the user's environment.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from kshot.configs._codec import Codec
from kshot.core.errors import DataError
from kshot.sandbox import program as sandbox

LAYERS = sandbox.LAYERS
LOAD_SECONDS = 20.0
CALL_SECONDS = 10.0
MEMORY_MB = 1024
_ANSWER_BYTES = 128 << 20
_CHUNK = 1 << 16
_LINES = 8  # one answer is waited for at a time; a process that says more says too much
_UNREADABLE = "the config's process gave an answer that cannot be read"
_HERE = Path(__file__).parent
_PASSED_ON = ("DATASET_SOURCE", "OC_JUDGE_MODEL", "OC_JUDGE_API_BASE", "SYSTEMROOT")
_BOOT = (
    "import sys; from importlib.machinery import SourceFileLoader as L; "
    "from importlib.util import spec_from_loader as s, module_from_spec as m; "
    "l = L('kshot_config_worker', sys.argv[1]); w = m(s('kshot_config_worker', l)); l.exec_module(w); w.main()"
)


class Confined:
    """A config's process: made when it is first asked, killed when it takes too long, made again for the next call."""

    def __init__(
        self,
        path: Path,
        *,
        above: Sequence[Path] = (),
        roots: Sequence[Path] = (),
        codec: Codec | None = None,
        load_seconds: float = LOAD_SECONDS,
        call_seconds: float = CALL_SECONDS,
        memory_mb: int = MEMORY_MB,
        layers: Sequence[str] = LAYERS,
    ) -> None:
        """``above``: folders that may hold the packages of absolute imports; ``roots``: what the config may read."""
        self.path, self._codec = path, codec or Codec()
        self._seconds = {"load": load_seconds}
        self._call_seconds = call_seconds
        self._job = {
            "path": str(path),
            "above": [str(folder) for folder in above],
            "roots": [str(folder) for folder in roots],
            "memory": memory_mb << 20,
            "layers": list(layers),
            "house": str(_HERE.parent),
            "cwd": str(Path.cwd()),
        }
        self._memory_mb = memory_mb
        self._lock = threading.RLock()
        self._process: _Process | None = None
        self._number = 0

    def load(self) -> Any:
        """Run the file; give its variables, as decoded."""
        with self._lock:
            self.close()
            return self._decoded(self._ask({"do": "load"}))

    def call(self, own: int, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call a function of the config with plain values."""
        return self._request(
            {"do": "call", "own": own, "args": self._codec.encode(list(args)), "kwargs": self._codec.encode(kwargs)}
        )

    def method(self, own: int, made: dict[str, Any], method: str, kwargs: dict[str, Any]) -> Any:
        """Make an object of a class of the config and call one of its methods."""
        encode = self._codec.encode
        return self._request(
            {"do": "method", "own": own, "made": encode(made), "method": method, "kwargs": encode(kwargs)}
        )

    def close(self) -> None:
        """End the process; the next call makes another."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                process.end()

    def _request(self, request: dict[str, Any]) -> Any:
        with self._lock:
            if self._process is None or not self._process.alive():
                self.close()
                self._ask({"do": "load"})
            return self._decoded(self._ask(request))

    def _decoded(self, plain: Any) -> Any:
        try:
            return self._codec.decode(plain)
        except (RecursionError, TypeError, ValueError, LookupError) as exc:
            raise DataError(_UNREADABLE, where=str(self.path)) from exc

    def _ask(self, request: dict[str, Any]) -> Any:
        if self._process is None:
            self._process = _Process(self._job)
        self._number += 1
        seconds = self._seconds.get(request["do"], self._call_seconds)
        said = self._process.ask({**request, "id": self._number}, seconds)
        if isinstance(said, str):
            self.close()
            raise DataError(said, where=str(self.path))
        if said.get("id") != self._number or ("done" not in said and not isinstance(said.get("fault"), dict)):
            self.close()
            raise DataError(_UNREADABLE, where=str(self.path))
        if "fault" in said:
            raise self._fault(said["fault"])
        return said["done"]

    def _fault(self, fault: dict[str, Any]) -> DataError:
        kind, message = str(fault.get("kind")), str(fault.get("message"))
        line = f":{fault.get('line')}" if fault.get("line") else ""
        where = f"{fault.get('file') or self.path}{line}"
        hint = ""
        if kind == "MemoryError":
            message = message or f"it wants more memory than the {self._memory_mb} MB that a config may have"
        elif kind == "PermissionError":
            hint = (
                "A config can read its own folders, and can neither write nor reach the network: see docs/configs.md."
            )
        if kind == "SyntaxError":
            return DataError(f"this is not Python: {message}", where=where)
        if kind in {"ConfigFault", "NotHere"}:
            return DataError(message, where=where)
        return DataError(f"the config fails: {kind}: {message}".rstrip(": "), where=where, hint=hint)


class _Process:
    """One confined process and its two pipes."""

    def __init__(self, job: dict[str, Any]) -> None:
        folder = Path(tempfile.mkdtemp(prefix="kshot-config-")).resolve()
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
            [sys.executable, "-s", "-B", "-P", "-c", _BOOT, str(_HERE / "_worker.py")]
            if sys.version_info >= (3, 11)
            else [sys.executable, "-s", "-B", "-c", _BOOT, str(_HERE / "_worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=_environment(folder),
            start_new_session=True,
        )
        assert self._process.stdin is not None  # noqa: S101 - for the type checker: they are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._stdin = self._process.stdin
        self._answers: queue.Queue[bytes | None] = queue.Queue(_LINES)
        threading.Thread(target=_listen, args=(self._process.stdout, self._answers), daemon=True).start()
        self._finalizer = weakref.finalize(self, _end, self._process, folder)
        _RUNNING.add(self)
        self._send({**job, "folder": str(folder)})

    def alive(self) -> bool:
        return self._process.poll() is None

    def _send(self, value: dict[str, Any]) -> None:
        try:
            self._stdin.write(json.dumps(value).encode("ascii") + b"\n")
            self._stdin.flush()
        except (BrokenPipeError, ValueError, OSError):
            return  # it has ended, which the answer will tell

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any] | str:
        """Give the answer, or what went wrong instead."""
        self._send(request)
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            return f"it did not end within {seconds:g} s: a config may not loop without end"
        if line is None:
            return f"its process ended before it was done ({_ending(self._process)})"
        if len(line) > _ANSWER_BYTES:
            return f"it gives more than {_ANSWER_BYTES >> 20} MB of data"
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            return _UNREADABLE
        return said if isinstance(said, dict) else _UNREADABLE

    def end(self) -> None:
        self._finalizer()
        _RUNNING.discard(self)


_RUNNING: weakref.WeakSet[_Process] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    for process in list(_RUNNING):
        process.end()


def _listen(pipe: IO[bytes], answers: queue.Queue[bytes | None]) -> None:
    """Pass on whole lines, not too many and none too long, so that nobody's memory fills."""
    held = bytearray()
    with pipe, suppress(queue.Full):
        while chunk := pipe.read1(_CHUNK):  # type: ignore[attr-defined]
            held += chunk
            while (end := held.find(b"\n")) >= 0:
                answers.put_nowait(bytes(held[:end]))
                del held[: end + 1]
            if len(held) > _ANSWER_BYTES:
                answers.put_nowait(bytes(held))
                break
        answers.put_nowait(None)


def _ending(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(1.0)
    except subprocess.TimeoutExpired:
        return "it closed its pipe"
    number = code - 128 if code > 128 else -code  # noqa: PLR2004 - how shells tell of signals
    if code in (0, 1) or number not in {int(each) for each in signal.Signals}:
        return f"exit code {code}"
    return f"killed by {signal.Signals(number).name}"


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    shutil.rmtree(folder, ignore_errors=True)


def _environment(folder: Path) -> dict[str, str]:
    clean = {"PATH": os.defpath, "HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8"}
    clean |= {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1"}
    return clean | {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
