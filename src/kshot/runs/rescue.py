"""A journal that somebody replaces, removes or cuts while a run writes it: the run stops, and its answers are kept."""

from __future__ import annotations

import os
from pathlib import Path

from kshot.core.durable import disk_hint, sync
from kshot.core.errors import RunError
from kshot.runs.lock import lock

_BLOCK = 1 << 20
_MAX_NAMES = 1000


def lost(descriptor: int, path: Path, end: int) -> RunError | None:
    """Return the error if the open file no longer has this name, or is shorter than what was written to it.

    The descriptor of a file that lost its name still has every line: they are copied to the name if it is free, and
    otherwise to a file beside it.
    """
    size = os.fstat(descriptor).st_size
    try:
        is_ours = os.path.samestat(os.fstat(descriptor), path.stat())
    except (FileNotFoundError, NotADirectoryError):
        is_ours = False
    if is_ours and size >= end:
        return None
    cut = "" if size >= end else f" {end - size:,} of its {end:,} bytes are gone: what they answered is asked again."
    again = "Run the same command again"
    if not is_ours:
        try:
            kept = _copied(descriptor, path)
        except OSError as exc:
            cut, again = f" Its answers could not be saved ({exc.strerror or exc}).{cut}", disk_hint(exc)[:-1]
        else:
            if kept == path:
                cut = f" Its answers are in that place again.{cut}"
            else:
                cut, again = f" Its answers are in {kept}.{cut}", f"{again}, with --reuse {kept}"
    return RunError(
        f"the journal was replaced, removed or cut while the run used it.{cut}", where=str(path), hint=f"{again}."
    )


def _copied(descriptor: int, path: Path) -> Path:
    """Copy an open file to this path, or to the first free name beside it; return where it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = (path.with_name(f"{path.stem}.rescued-{number}{path.suffix}") for number in range(1, _MAX_NAMES))
    for place in (path, *beside):
        try:
            copy = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            continue
        try:
            lock(copy, place)  # no other run begins in an unfinished copy
            _copy(descriptor, copy)
        except BaseException:
            place.unlink(missing_ok=True)
            raise
        finally:
            os.close(copy)
        return place
    raise FileExistsError(None, "too many files of this kind are there", str(path))


def _copy(descriptor: int, copy: int) -> None:
    offset = 0
    while block := os.pread(descriptor, _BLOCK, offset):
        offset += os.write(copy, block)
    sync(copy)
