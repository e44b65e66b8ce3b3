"""The last layer: a Python audit hook that refuses writing, network and processes.

Runs inside the confined process. It is loaded with a private copy of the builtins, so that code which replaces ``len``
or ``os.readlink`` does not change what is refused.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MAX_LINKS = 40  # as many as Linux follows

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
        *("winreg.CreateKey", "winreg.DeleteKey", "winreg.SetValue", "sys.remote_exec"),
        "cpython.remote_debugger_script",
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
_LISTS_FOLDER = frozenset(("os.listdir", "os.scandir"))
_C_WRITERS = frozenset(("_gdbm", "_dbm", "_sqlite3"))  # they open files without asking Python


class _Paths:
    """Where paths lead, found with functions that the confined code cannot replace."""

    def __init__(self, folder: str) -> None:
        self._readlink, self._getcwd, self._fspath = os.readlink, os.getcwd, os.fspath
        self._folder, self._null, self._windows = folder, os.devnull, os.name == "nt"
        self._inside_of = folder.rstrip("/") + "/"

    def within(self, path: Any, descriptor: Any = None, *, follow: bool = True) -> bool:
        """Whether a path lies in the process's own folder, or is the null device."""
        # A number is an open file, which may have been opened for reading only.
        found = self._base(path) if isinstance(path, int) else self.resolve(path, descriptor, follow=follow)
        return found is not None and (found in {self._folder, self._null} or found.startswith(self._inside_of))

    def resolve(self, path: Any, descriptor: Any = None, *, follow: bool = True) -> str | None:
        """Follow every link of a path; None where that cannot be done."""
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
        return self._follow_links(text.split("/"), follow_last=follow)

    def _base(self, descriptor: Any) -> str | None:
        if not isinstance(descriptor, int) or descriptor < 0:
            return self._getcwd()
        try:
            return self._readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            return None

    def _follow_links(self, parts: list[str], *, follow_last: bool) -> str | None:
        remaining, links = parts[::-1], 0
        done: list[str] = []
        while remaining:
            part = remaining.pop()
            if part in {"", "."}:
                continue
            if part == "..":
                done[-1:] = []
                continue
            here = "/" + "/".join([*done, part])
            target = None
            if remaining or follow_last:
                try:
                    target = self._readlink(here)
                except OSError:
                    target = None
            if target is None:
                done.append(part)
                continue
            links += 1
            if links > _MAX_LINKS:
                return None
            done = [] if target.startswith("/") else done
            remaining.extend(target.split("/")[::-1])
        return "/" + "/".join(done)


def _shows_process(path: str | None, mine: str) -> bool:
    """Whether a path shows another process (its environment may hold secrets) or the memory of any."""
    _, root, process, *rest = [*(path or "").split("/"), "", ""]
    return root == "proc" and bool(rest) and process.isdigit() and (process != mine or "mem" in rest)


def install(
    folder: str, refuse: Callable[[str], None], *, alone: bool, readable: list[str] | None = None, threads: bool = True
) -> None:
    """Watch this process from now on. ``refuse`` is called with what is not allowed, and does not return.

    ``alone``: no kernel layer guards the files, so native code is not trusted either. ``readable``: which files and
    folders may be read (None: all). ``threads``: whether they may be started.
    """
    paths = _Paths(folder)
    changes_and_opens = _checks(paths, alone=alone)
    reads = _reading_check(paths, readable) if readable is not None else None

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in _NEVER:
            refuse(event)
        check = changes_and_opens.get(event)
        if check is not None and not check(args):
            refuse(event)
        if reads is not None and (path := reads(event, args)) is not None:
            refuse(f"reading {path}")

    _fence_unwatched(refuse)
    if not threads:
        _fence_threads(refuse)
    sys.addaudithook(hook)


def _checks(paths: _Paths, *, alone: bool) -> dict[str, Callable[[tuple[Any, ...]], bool]]:
    """Return for each event that is not always refused the function that says whether it is allowed."""
    library = os.path.dirname(os.__file__)  # noqa: PTH120 - pathlib takes long to load
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

    def changed(changes: tuple[tuple[int, int | None, bool], ...]) -> Callable[[tuple[Any, ...]], bool]:
        return lambda args: all(
            paths.within(args[path], args[at] if at is not None and at < len(args) else None, follow=follow)
            for path, at, follow in changes
        )

    return {
        **{event: changed(changes) for event, changes in _CHANGES.items()},
        "open": opened,
        "import": imported,
        "socket.__new__": lambda args: args[1] == unix,  # asyncio talks to itself through a pair of these
        "sqlite3.connect": lambda args: not alone and (args[0] == ":memory:" or paths.within(args[0])),
    }


def _reading_check(paths: _Paths, readable: list[str]) -> Callable[[str, tuple[Any, ...]], str | None]:
    """Return the function that gives the path which an event would read and may not."""
    exact, inside_of = frozenset(readable), tuple(path.rstrip("/") + "/" for path in readable)

    def forbidden(event: str, args: tuple[Any, ...]) -> str | None:
        if not (event in _LISTS_FOLDER or (event == "open" and not args[2] & _WRITING)):
            return None
        path = "." if args[0] is None else args[0]
        if isinstance(path, int):  # an open file
            return None
        found = paths.resolve(path)
        if found is None:
            return str(path)
        return None if found in exact or (found + "/").startswith(inside_of) else found

    return forbidden


def _unix_family() -> int:
    try:
        import socket
    except ImportError:
        return -1
    return int(getattr(socket, "AF_UNIX", -1))  # Windows has none


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
        for name, replacement in (("open", open_checked), ("mknod", refused), ("mkfifo", refused)):
            if hasattr(module, name):  # which of them there are depends on the system
                setattr(module, name, replacement)


def _fence_threads(refuse: Callable[[str], None]) -> None:
    """Let nothing outlive the call that started it. Not every version of Python tells its hooks of threads."""
    import _thread
    import threading

    def refused(*_: Any, **__: Any) -> None:
        refuse("threads")

    for module in (_thread, threading):
        for name in ("start_new_thread", "start_new", "start_joinable_thread"):
            for spelled in (name, f"_{name}"):
                if hasattr(module, spelled):  # which of them there are depends on the version
                    setattr(module, spelled, refused)
