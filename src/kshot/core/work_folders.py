"""Folders that are filled elsewhere and get their names when they are complete: indexes and downloads.

A process that fills a folder holds a lock on it. The system releases the lock when the process ends, however it ends,
so a folder that can be locked is a leftover, and the next process that fills one removes it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # a system without these locks: there no folder is ever taken for a leftover
    fcntl = None  # type: ignore[assignment]  # a module's name cannot be declared optional


@contextmanager
def locked_folder(root: Path, name: str) -> Iterator[Path]:
    """Make a locked folder to fill, hidden in ``root``, and remove it afterwards, also after an error."""
    while True:
        fresh = Path(tempfile.mkdtemp(prefix=f".{name}.{os.getpid()}.", dir=root))
        handle = _lock(fresh)
        if handle is not None and fresh.is_dir():
            break  # otherwise another process removed the folder before it was locked
        if handle is not None:
            os.close(handle)
    try:
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        os.close(handle)


def remove_leftovers(root: Path, pattern: str) -> None:
    """Remove the folders of processes that were killed while they filled them."""
    for folder in root.glob(pattern):
        handle = _lock(folder, own=False)
        if handle is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(handle)


def sync_all(folder: Path) -> None:
    """Flush a folder and all its files to the disk: a power cut after the folder has its name must not empty them."""
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _lock(folder: Path, *, own: bool = True) -> int | None:
    """Lock a folder and return its handle, or None if another process holds the lock or has removed the folder.

    Where the system has no locks, a folder of one's own counts as locked, and another's does not.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    locked = own
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked = True
        except BlockingIOError:
            locked = False
        except OSError:  # a file system without locks
            pass
    if locked:
        return handle
    os.close(handle)
    return None
