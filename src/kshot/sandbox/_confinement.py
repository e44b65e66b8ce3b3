"""Confine this process as its job asks: namespaces, Landlock, seccomp, limits and the audit hook.

Runs inside the confined process. A worker calls ``read_job``, ``enter_child`` and ``confine``, in this order.
"""

from __future__ import annotations

import builtins
import json
import os
import signal
import sys
import time
from importlib.machinery import SourceFileLoader

from kshot.sandbox import _kernel, _seccomp

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO

_LINUX = sys.platform == "linux"
_KERNEL_LAYERS = {"namespaces", "landlock", "seccomp"}
_SYSTEM_FILES = (
    *("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo", "/etc/localtime"),
    *("/dev/null", "/dev/urandom", "/dev/zero", "/proc/meminfo", "/proc/cpuinfo", "/proc/self/maps"),
)
_SHELL_SIGNAL = 128
_SCRATCH_MB = 64
_OPEN_FILES = 1024
"""More than a worker has open before it is confined."""
_MAX_THREADS, _LOOK_SECONDS = 2048, 0.05
"""Libraries start fewer threads, also on large machines. Without a limit, no process could be started any more."""
_NOBODY = 65534
_STAT_THREADS = 17
"""Which of the words behind the name in ``/proc/PID/stat`` is the number of threads."""


def taken_streams() -> tuple[int, int]:
    """Return descriptors of standard input and output; the null device is in their place from now on.

    It is in that of standard error, too: the code that runs later finds nothing there.
    """
    source, channel = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.close(null)
    return source, channel


def read_job() -> tuple[dict[str, Any], BinaryIO, int]:
    """Return the job, the stream of the requests that follow it, and the descriptor to which answers are written."""
    source, answers = taken_streams()
    requests = os.fdopen(source, "rb")
    job = json.loads(requests.readline())
    if not _LINUX:
        job["layers"] = [layer for layer in job["layers"] if layer not in _KERNEL_LAYERS]
    return job, requests, answers


def write_answer(channel: int, answer: str) -> None:
    """Write a line of ASCII to the caller."""
    line = memoryview(answer.encode("ascii") + b"\n")
    while line:
        line = line[os.write(channel, line) :]


# ---- a process of its own ----


def enter_child(
    job: dict[str, Any], *, seconds: float | None = None, report: Callable[[str, str], None] = lambda *_: None
) -> bool:
    """Fork, and return in the child. True: the child has namespaces of its own.

    The parent waits for the child, kills it after so many seconds or when it has too many threads, kills what it left
    running, and exits as it did. It reports a child that did not end by itself: ``timeout`` or ``failed``, and why.
    """
    if not hasattr(os, "fork"):  # Windows
        return False
    if _LINUX:
        _kernel.die_with_parent()  # nothing runs on when the evaluation is killed
        _kernel.adopt_orphans()
    apart = _LINUX and "namespaces" in job["layers"] and _kernel.unshare(network=job.get("network", False))
    first = _first_process() if apart else None
    child = os.fork()
    if child:
        status, why = _wait_for(child, seconds)
        if first is not None:  # all that is left in the namespace ends with it
            os.kill(first, signal.SIGKILL)
            os.waitpid(first, 0)
        _end_orphans()
        killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if why == "crowded":
            report("failed", f"started more than {_MAX_THREADS} threads")
        elif seconds is not None and (why or killed_by == signal.SIGXCPU):
            report("timeout", f"timed out after {seconds:g} s")
        elif killed_by:
            report("failed", f"killed by {signal.Signals(killed_by).name}")
        os._exit(_SHELL_SIGNAL + killed_by if killed_by else os.WEXITSTATUS(status))
    if _LINUX:
        _kernel.die_with_parent()
    return apart


def _first_process() -> int:
    """Start process 1 of the new namespace, which does nothing, and return its number.

    The kernel ignores signals to process 1 that would end any other process, so the program must not be process 1.
    """
    first = os.fork()
    if first:
        return first
    _kernel.die_with_parent()
    os.closerange(0, _OPEN_FILES)
    _kernel.drop_privileges()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # what is left to it leaves no zombie
    while True:
        signal.pause()


def _wait_for(child: int, seconds: float | None) -> tuple[int, str]:
    """Return the status of a child that has ended, and why it was killed: ``late``, ``crowded``, or ""."""
    why = ""
    end = None if seconds is None else time.monotonic() + seconds

    def look(*_: object) -> None:
        nonlocal why
        why = why or ("late" if end is not None and time.monotonic() >= end else "")
        why = why or ("crowded" if _threads(child) > _MAX_THREADS else "")
        if why:
            os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _LOOK_SECONDS, _LOOK_SECONDS)
    _, status = os.waitpid(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return status, why


def _threads(process: int) -> int:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123 - pathlib takes long to load
            return int(file.read().rpartition(b")")[2].split()[_STAT_THREADS])
    except OSError:  # there is no /proc here
        return 0


def _end_orphans() -> None:
    """Kill what the child left running, generation after generation, until nothing is left to adopt."""
    while True:
        try:
            with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:  # noqa: PTH123 - pathlib takes long to load
                orphans = [int(number) for number in file.read().split()]
        except OSError:
            return
        if not orphans:
            return
        for number in orphans:
            os.kill(number, signal.SIGKILL)
        for _ in orphans:  # in any order: process 1 of a namespace ends when all others are waited for
            os.waitpid(-1, 0)


# ---- the layers ----


def confine(job: dict[str, Any], report: Callable[[str], None], *, apart: bool) -> str:
    """Put every layer in place that the job names, the kernel's first; return what the system lacks, "" if enough is.

    ``report`` tells the caller of a refusal after which this process ends. No variable that the confined code can reach
    may hold it: without a kernel layer, the code could change it.
    """
    folder, layers = job["folder"], job["layers"]
    readable = None if job["readable"] is None else _readable(job["readable"], folder)
    install_guard = _load_guard()
    for name in [name for name in sys.modules if name.partition(".")[0] == "kshot"]:
        del sys.modules[name]  # the code shall not find them
    frozen = own_root = locked = filtered = False
    if not _KERNEL_LAYERS.isdisjoint(layers):
        network = job.get("network", False)
        if apart and job.get("own_root", False):
            own_root = _kernel.enter_own_root(folder, _shown(job["readable"]), job.get("scratch_mb", _SCRATCH_MB))
        frozen = own_root or (apart and _kernel.freeze_files(folder))
        _kernel.drop_privileges()
        if "landlock" in layers:
            locked = _kernel.restrict_writing(folder, job["landlock_abi"], network=network)
            if readable is not None:
                locked = _kernel.restrict_reading(_existing(readable)) and locked
        filtered = "seccomp" in layers and _seccomp.install(files_frozen=frozen, network=network)
    try:
        os.chdir(job["cwd"])  # again: another file system may lie there now
    except OSError:
        os.chdir(folder)
    # In a user namespace of its own, where root is nobody, the limit counts the threads of this process alone.
    by_bubblewrap = job.get("in_bubblewrap", False) and os.stat("/usr/lib").st_uid == _NOBODY  # noqa: PTH116 - pathlib takes long to load
    most = job.get("max_threads") if apart or by_bubblewrap else None
    _kernel.set_limits(job["limits"], processes=most if filtered else 0)
    lacking = [] if filtered else ["seccomp"]
    if not (locked or own_root or job.get("in_bubblewrap", False)):
        lacking.append("Landlock (Linux 6.2 or later)" + (" or mount namespaces" if job["own_root"] else ""))
    if "guard" in layers and (lacking or not job.get("own_root", False)):  # it looks into /proc, which its root lacks
        alone = not (frozen or (locked and filtered))
        refuse = _refusal(job["name"], report, final=alone)
        install_guard(folder, refuse, alone=alone, readable=readable, threads=job["threads"])
    return ", and ".join(lacking)


def _refusal(place: str, report: Callable[[str], None], *, final: bool) -> Callable[[str], None]:
    """Return the function that the audit hook calls to refuse something."""
    leave = os._exit

    def refuse(what: str) -> None:
        text = f"not allowed in {place}: {what}"
        if not final:
            raise PermissionError(text)
        # An exception carries the frames that it came through, and with them the guard's own variables: end here.
        try:
            report(text)
        finally:
            leave(1)

    return refuse


def _readable(roots: list[str], folder: str) -> list[str]:
    """Return what may be read: Python's own files, the system's libraries, and what the job names."""
    return _existing([os.path.realpath(path) for path in [*_shown(roots), folder]])


def _shown(roots: list[str]) -> list[str]:
    # The whole of sys.prefix may be more than Python's: a virtual environment can be made in a project's own folder.
    libraries = [f"{prefix}/{name}" for prefix in {sys.prefix, sys.base_prefix} for name in ("lib", "lib64", "DLLs")]
    packages = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return [os.path.dirname(os.__file__), *libraries, *packages, *_SYSTEM_FILES, *roots]  # noqa: PTH120 - pathlib takes long to load


def _existing(paths: list[str]) -> list[str]:
    return [path for path in paths if os.path.exists(path)]  # noqa: PTH110 - pathlib takes long to load


def _load_guard() -> Callable[..., None]:
    """Return the ``install`` of the guard, whose module has a private copy of the builtins."""
    path = os.path.join(os.path.dirname(__file__), "_guard.py")  # noqa: PTH118, PTH120 - pathlib takes long to load
    code = SourceFileLoader("_guard", path).get_code("_guard")
    assert code is not None  # noqa: S101 - it is a source file
    private: dict[str, Any] = {"__builtins__": dict(vars(builtins)), "__name__": "_guard"}
    exec(code, private)  # noqa: S102 - our own module
    install: Callable[..., None] = private["install"]
    return install
