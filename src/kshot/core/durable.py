"""Writing that survives a power cut, and what to do when the disk takes no more."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TextIO, cast

from kshot.core.errors import RunError
from kshot.core.kill_points import reach
from kshot.core.text_files import check_regular

_GROUP_SECONDS = 0.5
"""A group is flushed this long after its first write, so that a power cut costs less than a second."""

_NO_FSYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""Errors of files and file systems that cannot be flushed; nothing is wrong with what was written."""

_HINTS = {
    **dict.fromkeys((errno.ENOSPC, errno.EFBIG), "Free some space"),
    errno.EDQUOT: "Free some of your quota",
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "Make it writable"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "Close other programs, or raise the limit (ulimit -n)"),
    **dict.fromkeys((errno.EINVAL, errno.EISDIR), "Name a plain file"),
    errno.EIO: "The disk reports a fault: check it",
}


OTHER_FOLDER = "choose another folder with --out"
OTHER_FILE = "name another file"


def disk_hint(exc: OSError, otherwise: str = OTHER_FOLDER) -> str:
    """Return what a user can do about an error of the disk."""
    return f"{_HINTS.get(exc.errno or 0, 'Check the disk')}, or {otherwise}."


def sync(descriptor: int) -> None:
    """Have the disk store what was written to a file or folder."""
    try:
        os.fsync(descriptor)
    except OSError as exc:
        if exc.errno not in _NO_FSYNC:
            raise


def sync_folder(path: Path) -> None:
    """Have the disk store which files a folder has, and under which names; or what a file holds."""
    if os.name == "nt":  # pragma: no cover - Windows opens no folders, and stores names by itself
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


# ---- files that are replaced ----


def open_new(path: Path, errors: str = "backslashreplace") -> IO[str]:
    """Create a text file for writing. What is there is removed first: nothing is written through a link."""
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # a link that appears meanwhile is an error
    return os.fdopen(handle, "w", encoding="utf-8", errors=errors, newline="\n")


@contextmanager
def writing(path: Path, advice: str = "", otherwise: str = OTHER_FOLDER) -> Iterator[None]:
    """Turn errors of the disk, and only those, into one clear message.

    ``advice`` is what to do besides, ``otherwise`` where else to write.
    """
    try:
        yield
    except OSError as exc:
        what = f"it cannot be written: {exc.strerror or exc}"
        raise RunError(what, where=str(path), hint=f"{disk_hint(exc, otherwise)} {advice}".rstrip()) from exc


@contextmanager
def new_version(
    path: Path,
    point: str = "export",
    *,
    errors: str = "backslashreplace",
    fsync: bool = True,
    before: Callable[[], None] = lambda: None,
    advice: str = "",
    otherwise: str = OTHER_FOLDER,
) -> Iterator[IO[str]]:
    """Write a text file as a draft beside it, which takes its place when it is complete.

    ``before`` flushes what must be on the disk before this file is, ``point`` is how kill points name the file, and in
    JSON text ``errors`` makes a lone surrogate its escape, so that every reader accepts the file.
    """
    draft = path.with_name(f".{path.name}.draft")
    with writing(path, advice, otherwise):
        if path.exists():
            check_regular(path)  # a device or a pipe would be replaced by a file
        missing = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open_new(draft, errors)
    try:
        reach(f"{point}.opened")
        yield cast("IO[str]", _Draft(file, path, point, (advice, otherwise)))
        with writing(path, advice, otherwise):
            file.flush()
            reach(f"{point}.written")
            if fsync:
                before()
                sync(file.fileno())
                reach(f"{point}.synced")
            file.close()
            draft.replace(path)
            if fsync:
                for folder in (path.parent, *(new.parent for new in missing)):
                    sync_folder(folder)
            reach(f"{point}.replaced")
    except BaseException:
        with suppress(OSError):  # it flushes what the disk may have refused
            file.close()
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


@contextmanager
def new_binary_version(path: Path) -> Iterator[IO[bytes]]:
    """Do the same for a file of bytes, which can be sought in. An ``OSError`` of the block is one of the disk."""
    with new_version(path) as file, writing(path):
        yield cast("_Draft", file).buffer


class _Draft:
    """A file that is being written; only its own errors are reported as errors of the disk."""

    def __init__(self, file: IO[str], path: Path, point: str, hints: tuple[str, str]) -> None:
        self._file, self._path, self._point, self._hints = file, path, f"{point}.writing", hints

    @property
    def buffer(self) -> IO[bytes]:
        return cast("TextIO", self._file).buffer

    def write(self, text: str) -> int:
        reach(self._point, lambda: self._write_half(text))
        with writing(self._path, *self._hints):
            return self._file.write(text)

    def writelines(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.write(text)

    def flush(self) -> None:
        with writing(self._path, *self._hints):
            self._file.flush()

    def _write_half(self, text: str) -> None:
        self._file.write(text[: len(text) // 2])
        self._file.flush()


# ---- a file that grows ----


class GroupSync:
    """Flushes a file within a second of each write, in a thread of its own, so that nobody waits for the disk.

    One flush serves all answers of its half second. ``dirty``: not all that was written has been flushed. ``error``:
    the disk has refused a flush, and nobody knows what it has; this is raised at the next write.
    """

    def __init__(self, flush: Callable[[], None], seconds: float = _GROUP_SECONDS) -> None:
        """Take what flushes the file. The thread starts with the first write."""
        self._flush, self._seconds = flush, seconds
        self.dirty = False
        self.error: OSError | None = None
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def written(self) -> None:
        """Say that something was written."""
        if self.error is not None:
            raise self.error
        if self.dirty:
            return
        self.dirty = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kshot fsync", daemon=True)
            self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """End the thread; what is dirty then stays so."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait()
            self._stop.wait(self._seconds)
            if self._stop.is_set():
                return
            self._wake.clear()
            self.dirty = False  # before the flush: what is written meanwhile belongs to the next group
            try:
                self._flush()
            except OSError as exc:
                self.error = exc
                return
