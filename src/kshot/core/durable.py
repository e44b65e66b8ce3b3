"""Writing that survives a power cut, and what to do when the disk takes no more."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

_GROUP_SECONDS = 0.5
"""A group is flushed this long after its first write, so that a power cut costs less than a second."""

_NO_FSYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""Errors of files and file systems that cannot be flushed; nothing is wrong with what was written."""

_HINTS = {
    **dict.fromkeys((errno.ENOSPC, errno.EFBIG), "Free some space"),
    errno.EDQUOT: "Free some of your quota",
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "Make it writable"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "Close other programs, or raise the limit (ulimit -n)"),
    errno.EIO: "The disk reports a fault: check it",
}


def disk_hint(exc: OSError, otherwise: str = "choose another folder with --out") -> str:
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
    """Have the disk store which files a folder has, and under which names."""
    if os.name == "nt":  # pragma: no cover - Windows opens no folders, and stores names by itself
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


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
