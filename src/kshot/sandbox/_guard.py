"""The sandbox's last layer: a Python audit hook that refuses writing, network and processes.

It runs inside the jailed process, executed with a private copy of the builtins, so that a program that replaces ``len``
or ``os.readlink`` does not change what is refused.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_LINKS = 40  # as many as Linux follows

_NEVER = frozenset(
    (
        *("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile", "pty.spawn"),
        *("subprocess.Popen", "_winapi.CreateProcess", "_posixsubprocess.fork_exec", "os.kill", "os.killpg"),
        *("signal.pthread_kill", "resource.setrlimit", "resource.prlimit", "os.unshare", "os.setns"),
        *("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"),
        *("socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo", "socket.sethostname"),
        *("gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._current_frames", "sys._current_exceptions"),
        *("ctypes.dlopen", "ctypes.dlsym", "ctypes.dlsym/handle", "ctypes.call_function", "ctypes.cdata"),
        *("ctypes.cdata/buffer", "ctypes.string_at", "ctypes.wstring_at", "syslog.openlog", "syslog.syslog"),
        *(
            "winreg.CreateKey",
            "winreg.DeleteKey",
            "winreg.SetValue",
            "sys.remote_exec",
            "cpython.remote_debugger_script",
        ),
    )
)

# event → for each path it changes: position of the path, position of its directory's descriptor, follow a final link?
_CHANGES: dict[str, tuple[tuple[int, int | None, bool], ...]] = {
    "os.remove": ((0, 1, False),),
    "os.rmdir": ((0, 1, False),),
    "os.mkdir": ((0, 2, False),),
    "os.rename": ((0, 2, False), (1, 3, False)),
    "os.link": ((0, 2, True), (1, 3, False)),  # a second name for a file outside would open it to writing
    "os.symlink": ((1, 2, False),),
    "os.truncate": ((0, None, True),),
    "os.chmod": ((0, 2, True),),
    "os.chown": ((0, 3, True),),
    "os.utime": ((0, 3, True),),
    "os.chflags": ((0, None, True),),
    "os.lchmod": ((0, None, False),),
    "os.setxattr": ((0, None, True),),
    "os.removexattr": ((0, None, True),),
}
_C_WRITERS = frozenset(("_gdbm", "_dbm", "_sqlite3"))  # they open files without asking Python


class _Paths:
    """Where paths lead, found with functions that the program cannot replace."""

    def __init__(self, folder: str) -> None:
        self._readlink, self._getcwd, self._fspath = os.readlink, os.getcwd, os.fspath
        self._folder, self._null, self._windows = folder, os.devnull, os.name == "nt"
        self._inside_of = folder.rstrip("/") + "/"

    def within(self, path: Any, descriptor: Any = None, *, follow: bool = True) -> bool:
        """Tell whether a path lies in the program's own directory (or is the null device)."""
        # A number is an open file, which may have been opened for reading only.
        found = self._base(path) if isinstance(path, int) else self.resolve(path, descriptor, follow=follow)
        return found is not None and (found in {self._folder, self._null} or found.startswith(self._inside_of))

    def resolve(self, path: Any, descriptor: Any = None, *, follow: bool = True) -> str | None:
        """Follow every link of a path; None when it cannot be told."""
        text = self._fspath(path)
        text = text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text
        if self._windows:
            from ntpath import realpath

            return realpath(text)
        if not text.startswith("/"):
            base = self._base(descriptor)
            if base is None:
                return None
            text = f"{base}/{text}"
        return self._walk(text.split("/"), follow=follow)

    def _base(self, descriptor: Any) -> str | None:
        if not isinstance(descriptor, int) or descriptor < 0:
            return self._getcwd()
        try:
            return self._readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            return None

    def _walk(self, parts: list[str], *, follow: bool) -> str | None:
        waiting, links = parts[::-1], 0
        done: list[str] = []
        while waiting:
            part = waiting.pop()
            if part in {"", "."}:
                continue
            if part == "..":
                done[-1:] = []
                continue
            here = "/" + "/".join([*done, part])
            target = None
            if waiting or follow:
                try:
                    target = self._readlink(here)
                except OSError:
                    target = None
            if target is None:
                done.append(part)
                continue
            links += 1
            if links > _LINKS:
                return None
            done = [] if target.startswith("/") else done
            waiting.extend(target.split("/")[::-1])
        return "/" + "/".join(done)


def _shows_process(path: str | None, mine: str) -> bool:
    """Tell whether a path shows another process (its environment may hold secrets) or the memory of any."""
    _, root, process, *rest = [*(path or "").split("/"), "", ""]
    return root == "proc" and bool(rest) and process.isdigit() and (process != mine or "mem" in rest)


def install(folder: str, refuse: Callable[[str], None], *, alone: bool) -> None:
    """Watch this process from now on. ``alone``: no kernel layer guards the files, so trust no native code either."""
    paths = _Paths(folder)
    library = os.path.dirname(os.__file__)  # noqa: PTH120 - pathlib would be one more thing to load
    unix, mine = _unix_family(), str(os.getpid())

    def opened(args: tuple[Any, ...]) -> bool:
        path, _, flags = args
        if isinstance(path, int):
            return True
        if flags & _WRITING:
            return paths.within(path)
        return not _shows_process(paths.resolve(path), mine)

    def imported(args: tuple[Any, ...]) -> bool:
        name, file = args[0], args[1]
        if not alone:
            return True
        return name not in _C_WRITERS and (not file or (file.startswith(library) and "site-packages" not in file))

    def changed(event: str, args: tuple[Any, ...]) -> bool:
        return all(
            paths.within(args[path], args[at] if at is not None and at < len(args) else None, follow=follow)
            for path, at, follow in _CHANGES[event]
        )

    checks: dict[str, Callable[[tuple[Any, ...]], bool]] = {
        "open": opened,
        "import": imported,
        "socket.__new__": lambda args: args[1] == unix,  # asyncio talks to itself through a pair of these
        "sqlite3.connect": lambda args: not alone and (args[0] == ":memory:" or paths.within(args[0])),
    }

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in _NEVER or (event in _CHANGES and not changed(event, args)):
            refuse(event)
        check = checks.get(event)
        if check is not None and not check(args):
            refuse(event)

    _fence_unwatched(refuse)
    sys.addaudithook(hook)


def _unix_family() -> int:
    try:
        import socket
    except ImportError:
        return -1
    return int(getattr(socket, "AF_UNIX", -1))


def _fence_unwatched(refuse: Callable[[str], None]) -> None:
    """Wrap the few functions that change files and that Python reports incompletely, or not at all."""
    if os.name == "nt":
        return
    import posix

    really_open = posix.open

    def open_checked(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None and flags & _WRITING:  # the hook is not told the directory
            refuse("os.open")
        return really_open(path, flags, mode, dir_fd=dir_fd)

    def refused(*_: Any, **__: Any) -> None:
        refuse("os.mknod")

    for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        known.difference_update((posix.open, posix.mknod, posix.mkfifo))
    os.supports_dir_fd.add(open_checked)
    for module in (os, posix):
        for name, stand_in in (("open", open_checked), ("mknod", refused), ("mkfifo", refused)):
            if hasattr(module, name):
                setattr(module, name, stand_in)
