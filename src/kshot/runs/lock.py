"""The lock on a journal: one process at a time works in a run folder."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from kshot.core.errors import RunError
from kshot.core.text_files import regular_file

try:
    import fcntl
except ImportError:  # pragma: no cover - no advisory locks on this platform
    fcntl = None  # type: ignore[assignment]  # a module's name cannot be declared optional

_LOCKED = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
_TRIES = 5
_RETRY_SECONDS = 0.02
"""``is_locked`` of another process has the lock for an instant."""


def lock(descriptor: int, path: Path) -> None:
    """Lock an open file until it is closed; refuse if another process has the lock."""
    for left in reversed(range(_TRIES)):
        if _took(descriptor, exclusive=True) is not False:
            return
        if left:
            time.sleep(_RETRY_SECONDS)
    raise RunError(
        "another process is working in this run folder",
        where=str(path.parent),
        hint="Wait for it, or choose another folder with --out.",
    )


def is_locked(path: Path) -> bool | None:
    """Whether a process has locked the file; None where that cannot be found out. Nothing in the file changes."""
    try:
        descriptor = regular_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        took = _took(descriptor, exclusive=False)
        return None if took is None else not took
    finally:
        os.close(descriptor)  # which releases the lock


def _took(descriptor: int, *, exclusive: bool) -> bool | None:
    """Lock a file, unless another process has done so; None where there are no locks."""
    if fcntl is None:  # pragma: no cover - no advisory locks on this platform
        return None  # type: ignore[unreachable]  # not for the platform that mypy runs on
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError as exc:
        return False if exc.errno in _LOCKED else None
    return True
