"""The lock on a journal: one process at a time works in a run folder."""

from __future__ import annotations

import errno
from pathlib import Path

from kshot.core.errors import RunError

try:
    import fcntl
except ImportError:  # pragma: no cover - no advisory locks on this platform
    fcntl = None  # type: ignore[assignment]  # a module's name cannot be declared optional

_LOCKED = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}


def lock(descriptor: int, path: Path) -> None:
    """Lock an open file until it is closed; refuse if another process has the lock."""
    if fcntl is None:  # pragma: no cover - no advisory locks on this platform
        return  # type: ignore[unreachable]  # not for the platform that mypy runs on
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        if exc.errno not in _LOCKED:
            return  # a file system without locks
        raise RunError(
            "another process is working in this run folder",
            where=str(path.parent),
            hint="Wait for it, or choose another folder with --out.",
        ) from exc
