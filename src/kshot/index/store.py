"""Where index files are kept: one folder an index, under a name made of everything it depends on."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kshot.core.errors import BackendError, RunError

try:
    import fcntl
except ImportError:  # no such locks here: then nothing is ever taken for a leftover
    fcntl = None  # type: ignore[assignment]

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""

KEY, FILES = "key.json", "files.json"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def nobody(label: str, done: int, total: int) -> None:
    """Watch nothing."""


def default_root() -> Path:
    """``$KSHOT_CACHE``, or ``kshot`` in the user's cache folder; indexes are below it."""
    own = os.environ.get("KSHOT_CACHE")
    base = Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kshot"
    return base.expanduser() / "indexes"


class Store:
    """Index folders by content. A folder gets its name only when it is whole: it is built beside, and moved.

    Who builds holds a lock on the folder, which the system opens when the process ends, however it ends: a folder that
    can be locked is a dead process's leftover and is removed by the next builder. Two who build the same both finish;
    the first to finish gives the name. A folder whose files have other sizes than they were built with is built anew.
    """

    def __init__(self, root: Path | None = None, progress: Progress = nobody) -> None:
        """Say where the folders are (default: the user's cache) and who watches them being built."""
        self.root = root or default_root()
        self.progress = progress

    def built(self, kind: str, key: Mapping[str, Any], build: Callable[[Path], None]) -> Path:
        """Give the folder for this key, calling ``build`` with an empty folder to fill if there is none yet."""
        text = json.dumps(key, sort_keys=True, ensure_ascii=False)
        name = f"{kind}-{hashlib.blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=12).hexdigest()}"
        final = self.root / name
        if _whole(final):
            return final
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            _sweep(self.root)
            _set_aside(final)
            with _workshop(self.root, name) as fresh:
                build(fresh)
                (fresh / KEY).write_bytes(text.encode("utf-8", "surrogatepass") + b"\n")
                _seal(fresh)
                _publish(fresh, final)
        except OSError as exc:
            ours = str(exc.filename or self.root).startswith(str(self.root))
            if (ours and exc.errno in FULL) or not self.root.is_dir():
                raise RunError(
                    f"no index can be kept there: {exc.strerror or exc}", where=str(self.root), hint="Set KSHOT_CACHE."
                ) from exc
            raise
        return final


def damaged(folder: Path, exc: Exception) -> BackendError:
    """What to say of an index that has its files at their sizes and still cannot be read."""
    return BackendError(f"this index is damaged: {exc}", where=str(folder), hint="Remove the folder and run again.")


def _whole(folder: Path) -> bool:
    """Whether every file is as it was built: untouched since then, or, if it was touched, of the same content."""
    try:
        files: dict[str, list[Any]] = json.loads((folder / FILES).read_bytes())
        return all(_same(folder / name, *known) for name, known in files.items())
    except (OSError, ValueError, AttributeError, TypeError):
        return False


def _same(path: Path, size: int, changed: int, digest: str) -> bool:
    found = path.stat()
    return found.st_size == size and (found.st_mtime_ns == changed or _digest(path) == digest)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        state = hashlib.blake2b(digest_size=16)
        while block := file.read(1 << 22):
            state.update(block)
    return state.hexdigest()


def _seal(folder: Path) -> None:
    """Note what the files are, and bring all to the disk: a power cut must not leave a name without its bytes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    known = {
        str(path.relative_to(folder)): [path.stat().st_size, path.stat().st_mtime_ns, _digest(path)] for path in files
    }
    (folder / FILES).write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _publish(fresh: Path, final: Path) -> None:
    try:
        fresh.rename(final)
    except OSError:
        if not _whole(final):  # else another process was quicker, with the same content
            raise


def _set_aside(final: Path) -> None:
    """Take the name from a damaged folder; a process that reads its files keeps them until it ends."""
    if final.is_dir() and not _whole(final):
        away = final.with_name(f".{final.name}.damaged-{os.getpid()}")
        with suppress(FileNotFoundError):  # another process was quicker
            final.rename(away)
        shutil.rmtree(away, ignore_errors=True)


# ---- folders being built ----


@contextmanager
def _workshop(root: Path, name: str) -> Iterator[Path]:
    """A locked folder to build in; it is gone afterwards, whatever happened."""
    while True:
        fresh = Path(tempfile.mkdtemp(prefix=f".{name}.{os.getpid()}.", dir=root))
        handle = _locked(fresh)
        if handle is not None and fresh.is_dir():
            break  # else a sweeper came between the folder and its lock
        if handle is not None:
            os.close(handle)
    try:
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        os.close(handle)


def _locked(folder: Path, *, claim: bool = True) -> int | None:
    """Lock a folder and give its handle, or nothing if another has it (or has removed it).

    Where there are no locks, one who claims a folder gets it all the same, and one who asks for another's does not.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    mine = claim
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = True
        except BlockingIOError:
            mine = False
        except OSError:  # a file system without locks
            pass
    if mine:
        return handle
    os.close(handle)
    return None


def _sweep(root: Path) -> None:
    """Remove what processes left behind that were killed while building."""
    for folder in root.glob(".*-*.*"):
        handle = _locked(folder, claim=False)
        if handle is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(handle)
