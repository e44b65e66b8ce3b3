"""The cache, and folders of a process at work: indexes and downloads until they are complete, and sandboxes.

A process that uses such a folder holds a lock on it. The system releases the lock when the process ends, however it
ends, so a folder that can be locked is a leftover, and the next process that makes one removes it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from kshot.core.durable import sync_folder

try:
    import fcntl
except ImportError:  # a system without these locks: there no folder is ever taken for a leftover
    fcntl = None  # type: ignore[assignment]  # a module's name cannot be declared optional

_REMOVALS, _REMOVAL_SECONDS = 5, 0.05
"""How often the removal of a folder is tried, and how long it waits between two tries."""


class WorkFolder:
    """A new folder, locked until it is removed."""

    def __init__(self, root: Path, prefix: str) -> None:
        """Make it in ``root``, with a name that begins so."""
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=root)).resolve()
            self._handle = _lock(self.path)
            if fcntl is None or (self._handle is not None and self.path.is_dir()):
                break  # otherwise another process removed the folder before it was locked
            self._release()

    def remove(self) -> None:
        """Remove it, and all that is in it."""
        _remove(self.path)
        self._release()

    def _release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)


@contextmanager
def locked_folder(root: Path, name: str) -> Iterator[Path]:
    """Make a locked folder to fill, hidden in ``root``, and remove it afterwards, also after an error."""
    folder = WorkFolder(root, f".{name}.{os.getpid()}.")
    try:
        yield folder.path
    finally:
        folder.remove()


@contextmanager
def resumable_folder(root: Path, name: str) -> Iterator[Path]:
    """Make a locked folder, or take up the one of this name that an interrupted process has left.

    It is removed at the end, but not after an error. If it cannot be locked, as while another process uses it, this is
    a new folder of another name, and nothing is taken up or left.
    """
    path = root / name
    path.mkdir(exist_ok=True)
    handle = _lock(path, own=False)
    if handle is None or not _is_own(handle):
        with locked_folder(root, name) as other:
            yield other
        return
    try:
        yield path
        _remove(path)
    finally:
        with suppress(OSError):
            path.rmdir()  # nothing was finished
        os.close(handle)


def remove_leftovers(root: Path, pattern: str, *, unused_seconds: float = 0.0) -> None:
    """Remove the folders of this user's processes that were killed while they used them.

    ``unused_seconds``: only those in which no file was made for so long.
    """
    for folder in root.glob(pattern):
        handle = _lock(folder, own=False)
        if handle is not None:
            if _is_own(handle) and time.time() - os.fstat(handle).st_mtime >= unused_seconds:
                _remove(folder)
            os.close(handle)


def _is_own(handle: int) -> bool:
    return not hasattr(os, "getuid") or os.fstat(handle).st_uid == os.getuid()


def _remove(folder: Path) -> None:
    """Remove a folder, whatever permissions were left in it."""
    queue = [folder]
    while queue:
        inner = queue.pop()
        try:
            inner.chmod(stat.S_IRWXU)
            queue += [Path(entry) for entry in os.scandir(inner) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
    for _ in range(_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_REMOVAL_SECONDS)  # a thread of a library still writes into it


def sync_all(folder: Path) -> None:
    """Flush a folder and all its files to the disk: a power cut after the folder has its name must not empty them."""
    for path in [*folder.rglob("*"), folder]:
        sync_folder(path)


def _lock(folder: Path, *, own: bool = True) -> int | None:
    """Lock a folder and return its handle, or None if another process holds the lock or has removed the folder.

    Where the system has no locks, a folder of one's own counts as locked, and another's does not.
    """
    try:
        # Neither a link nor a pipe: in a folder for all users, anybody may have made it.
        handle = os.open(folder, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0))
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


def cache_folder() -> Path:
    """Return ``$KSHOT_CACHE``, or ``kshot`` in the user's cache folder."""
    own = os.environ.get("KSHOT_CACHE")
    return Path(own or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "kshot").expanduser()


DIGEST_BYTES = 16
_READ_BYTES = 1 << 22


def file_digest(file: IO[bytes]) -> bytes:
    """Return the digest of a file from its present position to its end."""
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    while block := file.read(_READ_BYTES):
        state.update(block)
    return state.digest()
