"""The jailed process of ``sandbox``: shuts itself in, runs one program, and reports how that ended.

Started as a script by ``sandbox.run``, it imports nothing of kshot. The first process waits and cleans up; its child,
alone in its namespaces, runs the program.
"""

from __future__ import annotations

import builtins
import json
import os
import signal
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn

_OPEN_FILES = 128
_REASON = 300


def main() -> NoReturn:
    """Read the job from standard input, see it through, and leave."""
    job = json.load(sys.stdin)
    channel = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.close(null)
    layers = set(job["layers"]) if sys.platform == "linux" else set(job["layers"]) & {"guard"}
    apart = _divide(job, channel, layers)
    try:
        # What says "passed" lies on the interpreter's stack while the program runs: in no variable of any frame.
        _shut_in(job, channel, layers, apart=apart)(
            exec(*_compiled(job))  # type: ignore[func-returns-value]  # noqa: S102 - what all this is for
        )
    except SystemExit:
        _tell(channel, "left by SystemExit before the tests were through")
    except BaseException as error:  # noqa: BLE001 - whatever it raises, it has failed
        _tell(channel, _described(error))
    os._exit(1)


def _divide(job: dict[str, Any], channel: int, layers: set[str]) -> bool:
    """Return in a child process, in namespaces of its own if they can be had; the parent stays here, and leaves."""
    if not hasattr(os, "fork"):
        return False
    kernel = _sibling("_kernel") if sys.platform == "linux" else None
    if kernel:
        kernel.die_with_parent()  # nothing runs on when the evaluation is killed
        kernel.adopt_orphans()
    apart = kernel is not None and "namespaces" in layers and kernel.unshare()
    child = os.fork()
    if child:
        _wait_for(child, job["timeout"], channel)
        os._exit(0)
    if kernel:
        kernel.die_with_parent()
    return bool(apart)


def _sibling(name: str) -> Any:
    """Load a module that lies beside this one: with its cached bytecode, without importing kshot."""
    loader = SourceFileLoader(name, str(Path(__file__).with_name(f"{name}.py")))
    spec = spec_from_loader(name, loader)
    assert spec is not None  # noqa: S101 - a loader was given
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def _wait_for(child: int, timeout: float, channel: int) -> None:
    late = False

    def expire(*_: Any) -> None:
        nonlocal late
        late = True
        os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    _, status = os.waitpid(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    _end_orphans()
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    if late or ended_by == signal.SIGXCPU:
        _tell(channel, f"timed out after {timeout:g} s")
    elif ended_by is not None:
        _tell(channel, f"killed by {signal.Signals(ended_by).name}")


def _end_orphans() -> None:
    """Kill what the program left running, generation after generation, until nothing is left to adopt."""
    listing = Path(f"/proc/self/task/{os.getpid()}/children")
    while True:
        try:
            left = [int(number) for number in listing.read_text("ascii").split()]
        except OSError:
            return
        if not left:
            return
        for number in left:
            os.kill(number, signal.SIGKILL)
        for number in left:
            os.waitpid(number, 0)


def _tell(channel: int, reason: str) -> None:
    """Report a failure. It needs no proof: a program that tells one of itself gains nothing."""
    os.write(channel, f"failed {reason[:_REASON]}\n".encode("utf-8", "replace"))


def _described(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}".rstrip(": ")
    except BaseException:  # noqa: BLE001 - its own __str__ may raise anything
        return type(error).__name__


def _compiled(job: dict[str, Any]) -> tuple[CodeType, dict[str, Any]]:
    """Give code and namespace. The module is not ``__main__``: the program's own demonstration is not the test."""
    module = ModuleType("program")
    sys.modules["program"] = module
    sys.argv[:] = ["program.py"]
    return compile(job.pop("program"), "program.py", "exec", dont_inherit=True), vars(module)


def _shut_in(job: dict[str, Any], channel: int, layers: set[str], *, apart: bool) -> Callable[[None], None]:
    """Put up all layers, and give the function that reports a pass."""
    files_safe = _shut_in_by_kernel(job, layers, apart=apart)
    write, leave, proof = os.write, os._exit, f"{job.pop('nonce')} passed\n".encode()

    def refuse(event: str) -> None:
        if files_safe:
            raise PermissionError(f"not allowed in the sandbox: {event}")
        # An exception carries the frames it came through, and with them the guard's own variables: end here.
        write(channel, f"failed not allowed in the sandbox: {event}\n".encode())
        leave(1)

    def passed(_: None) -> None:
        write(channel, proof)
        leave(0)

    if "guard" in layers:
        _install_guard(job["folder"], refuse, alone=not files_safe)
    return passed


def _shut_in_by_kernel(job: dict[str, Any], layers: set[str], *, apart: bool) -> bool:
    """Put up the layers that the kernel lends, outermost first; tell whether they guard the files."""
    folder = job["folder"]
    if not layers & {"namespaces", "landlock", "seccomp"}:
        _limit(job, processes=0)
        return False
    kernel = _sibling("_kernel")
    frozen = apart and kernel.freeze_files(folder)
    os.chdir(folder)  # again: another file system may lie there now
    kernel.drop_privileges()
    locked = "landlock" in layers and kernel.landlock(folder)
    filtered = "seccomp" in layers and _sibling("_seccomp").install(files_frozen=frozen)
    _limit(job, processes=None if filtered else 0)
    return bool(frozen or (locked and filtered))


def _limit(job: dict[str, Any], *, processes: int | None) -> None:
    """Set the limits of this process. ``processes`` counts all of the user's; None leaves them to the filter."""
    try:
        import resource
    except ImportError:
        return
    limits = {
        "RLIMIT_AS": job["memory"],
        "RLIMIT_CPU": job["cpu_seconds"],
        "RLIMIT_FSIZE": job["file_size"],
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": _OPEN_FILES,
        "RLIMIT_NPROC": processes,
    }
    for name, most in limits.items():
        kind = getattr(resource, name, None)
        if kind is None or most is None:
            continue
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (value, value))
        except (ValueError, OSError):  # macOS has no limit on address space
            continue


def _install_guard(folder: str, refuse: Callable[[str], None], *, alone: bool) -> None:
    # Loaded before the hook stands, since it keeps them from being loaded: a later `import ctypes` finds it here.
    import ctypes  # noqa: F401

    loader = SourceFileLoader("_guard", str(Path(__file__).with_name("_guard.py")))
    code = loader.get_code("_guard")
    assert code is not None  # noqa: S101 - it is a source file
    private: dict[str, Any] = {"__builtins__": dict(vars(builtins)), "__name__": "_guard"}
    exec(code, private)  # noqa: S102 - our own module
    private["install"](folder, refuse, alone=alone)
