"""The confined process of a config: shuts itself in, runs the file, then answers calls of what the file defined.

Started as a script by ``confine``, it imports only single files of kshot. Requests come as JSON lines on standard
input, answers go out as JSON lines. The first process only waits; its child, alone in its namespaces, does the work.
"""

from __future__ import annotations

import builtins
import ctypes
import json
import os
import struct
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any, NoReturn

_OPEN_FILES = 128
_SYS_LANDLOCK_CREATE, _SYS_LANDLOCK_ADD, _SYS_LANDLOCK_RESTRICT = 444, 445, 446
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_SYSTEM = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo", "/etc/localtime",
           "/dev/null", "/dev/urandom", "/dev/zero", "/proc/meminfo", "/proc/cpuinfo")  # fmt: skip


def main() -> NoReturn:
    """Take the job, shut this process in, and answer until nobody asks any more."""
    asked, channel = os.fdopen(os.dup(0), "rb"), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.close(null)
    job = json.loads(asked.readline())
    sys.path[:] = [folder for folder in sys.path if folder]
    _house(job)
    layers = set(job["layers"]) if sys.platform == "linux" else set(job["layers"]) & {"guard"}
    apart = _divide(layers)
    from kshot.configs._language import Interpreter

    interpreter = Interpreter(job)
    now: dict[str, Any] = {"id": 0}
    _shut_in(job, layers, _refusal(channel, now), apart=apart)
    for line in iter(asked.readline, b""):
        request = json.loads(line)
        now["id"] = request["id"]
        _write(channel, interpreter.answer(request).encode("ascii") + b"\n")
    os._exit(0)


def _write(channel: int, said: bytes) -> None:
    while said:
        said = said[os.write(channel, said) :]


def _house(job: dict[str, Any]) -> None:
    """Let kshot's own files be imported without what its packages import when they are loaded."""
    for name in ("kshot", "kshot.configs", "kshot.cleanups", "kshot.sandbox"):
        module = ModuleType(name)
        module.__path__ = ["/".join([job["house"], *name.split(".")[1:]])]
        sys.modules[name] = module


def _guard_code() -> dict[str, Any]:
    """Run the guard's module with a private copy of the builtins: a config that replaces ``len`` does not reach it."""
    path = sys.modules["kshot.sandbox"].__path__[0] + "/_guard.py"
    code = SourceFileLoader("_guard", path).get_code("_guard")
    assert code is not None  # noqa: S101 - it is a source file
    private: dict[str, Any] = {"__builtins__": dict(vars(builtins)), "__name__": "_guard"}
    exec(code, private)  # noqa: S102 - our own module
    return private


def _divide(layers: set[str]) -> bool:
    """Return in a child process, in namespaces of its own if they can be had; the parent waits for it, and leaves."""
    if not hasattr(os, "fork"):
        return False
    linux = sys.platform == "linux"
    from kshot.sandbox import _kernel as kernel

    if linux:
        kernel.die_with_parent()
    apart = linux and "namespaces" in layers and kernel.unshare()
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
    if linux:
        kernel.die_with_parent()
    return bool(apart)


def _refusal(channel: int, now: dict[str, Any]) -> Callable[[str, bool], None]:
    write, leave, dumps = os.write, os._exit, json.dumps

    def refuse(what: str, final: bool = False) -> None:  # noqa: FBT001, FBT002 - called by hooks
        said = f"not allowed in a config file: {what}"
        if not final:
            raise PermissionError(said)
        # Without a kernel layer an exception would carry the guard's own variables to the program: end here.
        fault = {"kind": "PermissionError", "message": said, "file": "", "line": 0}
        write(channel, dumps({"id": now["id"], "fault": fault}).encode("ascii") + b"\n")
        leave(1)

    return refuse


def _shut_in(job: dict[str, Any], layers: set[str], refuse: Callable[..., None], *, apart: bool) -> None:
    """Put up all layers, the kernel's first."""
    folder, readable = job["folder"], _readable(job)
    from kshot.sandbox import _kernel as kernel
    from kshot.sandbox import _seccomp as seccomp

    guard = _guard_code()
    for name in [name for name in sys.modules if name.partition(".")[0] == "kshot"]:
        del sys.modules[name]  # the config shall not find them
    frozen = locked = filtered = False
    if layers & {"namespaces", "landlock", "seccomp"}:
        frozen = apart and kernel.freeze_files(folder)
        kernel.drop_privileges()
        locked = "landlock" in layers and kernel.landlock(folder)
        if "landlock" in layers:
            _lock_reading(readable)
        filtered = "seccomp" in layers and seccomp.install(files_frozen=frozen)
    try:
        os.chdir(job["cwd"])
    except OSError:
        os.chdir(folder)
    _limit(job, processes=None if filtered else 0)
    alone = not (frozen or (locked and filtered))
    if "guard" in layers:
        guard["install"](folder, lambda event: refuse(event, alone), alone=alone)
        _watch(readable, lambda what: refuse(what, alone))


def _readable(job: dict[str, Any]) -> list[str]:
    """Give what may be read: Python's own files, the system's libraries, and the config's folders."""
    own = {sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(os.__file__), job["folder"]}  # noqa: PTH120
    found = [*own, *_SYSTEM, *job["roots"]]
    return [os.path.realpath(path) for path in found if os.path.exists(path)]  # noqa: PTH110


def _lock_reading(readable: list[str]) -> None:
    """Forbid reading files and folders anywhere else; a kernel without Landlock leaves this to the hook."""
    libc: Any = ctypes.CDLL(None, use_errno=True)
    body = struct.pack("=Q", _READ_FILE | _READ_FOLDER)
    rules = libc.syscall(_SYS_LANDLOCK_CREATE, body, ctypes.c_size_t(len(body)), 0)
    if rules < 0:
        return
    for path in readable:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rights = _READ_FILE | (_READ_FOLDER if os.path.isdir(path) else 0)  # noqa: PTH112 - quick to start
        libc.syscall(_SYS_LANDLOCK_ADD, rules, 1, struct.pack("=Qi", rights, place), 0)
        os.close(place)
    libc.syscall(_SYS_LANDLOCK_RESTRICT, rules, 0)
    os.close(rules)


def _watch(readable: list[str], refuse: Callable[[str], None]) -> None:
    realpath, fsdecode, kinds = os.path.realpath, os.fsdecode, (str, bytes)
    has, is_a = hasattr, isinstance  # as they are now, whatever a config puts in their place
    within = tuple(path.rstrip("/") + "/" for path in readable)
    listing = frozenset(("os.listdir", "os.scandir"))

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if (event == "open" and not args[2] & _WRITING) or event in listing:
            path: Any = args[0] if args[0] is not None else "."
            path = path.__fspath__() if has(path, "__fspath__") else path
            if is_a(path, kinds):
                found = realpath(fsdecode(path))
                if found not in readable and not (found + "/").startswith(within):
                    refuse(f"reading {found}")

    _refuse_threads(refuse)
    sys.addaudithook(hook)


def _refuse_threads(refuse: Callable[[str], None]) -> None:
    """Let nothing outlive the call that started it. Not every version of Python tells its hooks of threads."""
    import _thread
    import threading

    def refused(*_: Any, **__: Any) -> None:
        refuse("threads")

    for module in (_thread, threading):
        for name in ("start_new_thread", "start_new", "start_joinable_thread"):
            for spelled in (name, f"_{name}"):
                if hasattr(module, spelled):
                    setattr(module, spelled, refused)


def _limit(job: dict[str, Any], *, processes: int | None) -> None:
    """Set the limits of this process; time is kept by who asks."""
    try:
        import resource
    except ImportError:
        return
    limits = {
        "RLIMIT_AS": job["memory"],
        "RLIMIT_FSIZE": 1 << 20,
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
