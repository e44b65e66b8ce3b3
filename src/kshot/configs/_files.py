"""The files of a config, inside the confined process: it can open none, and asks its parent for each.

Standard library only. What a config uses to read files (``open``, ``os.stat``, ``os.listdir``, ``os.scandir`` and what
is built on them) asks too, for paths in the project; for all others it is as ever, and the kernel refuses.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import stat

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any


class RequestedFiles:
    """Files that are asked for over the pipe."""

    def __init__(self, ask: Callable[[list[Any]], dict[str, Any]], cwd: str, own: Sequence[str]) -> None:
        """``ask`` sends a request; ``own`` are folders that this process reads itself: Python's, and its own."""
        self._ask, self._cwd = ask, cwd
        self._own = tuple(folder.rstrip("/") + "/" for folder in own)

    def find(self, paths: Sequence[str]) -> tuple[str, str] | None:
        """Return the first of these files that there is, and its bytes as Latin-1 text."""
        found = self._answered("find", list(paths))
        return None if found is None else (found[0], found[1])

    def _answered(self, what: str, value: Any) -> Any:
        answer = self._ask([what, value])
        if "refused" in answer:
            raise PermissionError(f"not allowed in a config file: reading {answer['refused']}")
        return answer["found"]

    def _absolute(self, path: Any) -> str | None:
        """Return the path to ask for; None for what this process opens itself."""
        if isinstance(path, int):
            return None
        text = os.fsdecode(path)
        if not os.path.isabs(text):  # noqa: PTH117 - pathlib takes long to load
            text = os.path.join(self._cwd, text)  # noqa: PTH118 - as above
        return None if text.startswith(self._own) and ".." not in text.split("/") else text

    def _existing(self, what: str, path: Any, place: str) -> Any:
        found = self._answered(what, place)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found

    def _status(self, path: Any, place: str) -> os.stat_result:
        try:
            mode, size, changed = self._existing("stat", path, place)
        except PermissionError:  # what may not be read is not there: ``exists`` says so
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
        return os.stat_result((int(mode), 0, 0, 1, 0, 0, int(size), changed, changed, changed))

    def serve(self) -> None:
        """Let ``open`` and its like ask for files of the project."""
        really_open, really_stat, really_list, really_scan = io.open, os.stat, os.listdir, os.scandir

        def open_(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            place = self._absolute(file) if set(mode) <= set("rbtU") and options.get("opener") is None else None
            if place is None:
                return really_open(file, mode, *args, **options)
            given = dict(zip(("buffering", "encoding", "errors", "newline"), args)) | options  # noqa: B905 - Python takes two more
            data = io.BytesIO(self._existing("read", file, place).encode("latin-1"))
            return (
                data
                if "b" in mode
                else io.TextIOWrapper(data, given.get("encoding"), given.get("errors"), given.get("newline"))
            )

        def stat_(path: Any, *, dir_fd: Any = None, follow_symlinks: bool = True) -> os.stat_result:
            place = self._absolute(path) if dir_fd is None else None
            if place is None:
                return really_stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
            return self._status(path, place)

        def listed(path: Any = ".") -> list[str]:
            place = self._absolute(path)
            return really_list(path) if place is None else [name for name, _ in self._existing("list", path, place)]

        def scanned(path: Any = ".") -> Any:
            place = self._absolute(path)
            if place is None:
                return really_scan(path)
            text = os.fsdecode(path)
            return _Scan(iter([_Entry(text, name, folder=each) for name, each in self._existing("list", path, place)]))

        builtins.open = io.open = open_
        os.stat, os.listdir, os.scandir = stat_, listed, scanned  # type: ignore[assignment]  # fewer forms of calls
        os.lstat = lambda path, *, dir_fd=None: stat_(path, dir_fd=dir_fd, follow_symlinks=False)
        os.getcwd = lambda: self._cwd


class _Scan:
    """What ``os.scandir`` returns."""

    def __init__(self, entries: Iterator[_Entry]) -> None:
        self._entries = entries

    def __iter__(self) -> _Scan:
        return self

    def __next__(self) -> _Entry:
        return next(self._entries)

    def __enter__(self) -> _Scan:  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        """Do nothing: nothing is open."""


class _Entry:
    """A file or folder that ``os.scandir`` found; the parent shows no links that leave the project."""

    def __init__(self, folder_path: str, name: str, *, folder: bool) -> None:
        self.name, self.path, self._folder = name, os.path.join(folder_path, name), folder  # noqa: PTH118 - pathlib takes long to load

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a folder."""
        return self._folder or (follow_symlinks and os.path.isdir(self.path))  # noqa: PTH112 - as above

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a file."""
        return not self._folder and stat.S_ISREG(self.stat(follow_symlinks=follow_symlinks).st_mode)

    def is_symlink(self) -> bool:
        """Whether it is a link: it is what it leads to."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return its mode, size and time of change."""
        return os.stat(self.path, follow_symlinks=follow_symlinks)  # noqa: PTH116 - as above

    def __fspath__(self) -> str:
        return self.path
