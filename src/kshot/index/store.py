"""Where index files are kept: one folder for each index, under a name made of everything it depends on."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kshot.core.durable import disk_hint, sync_folder
from kshot.core.errors import BackendError, RunError
from kshot.core.kill_points import reach
from kshot.core.protocols import Executor, InlineExecutor, ProgressCallback, ShardedIndex
from kshot.core.work_folders import (
    cache_folder,
    file_digest,
    locked_folder,
    remove_leftovers,
    resumable_folder,
    sync_all,
)

KEY_FILE, MANIFEST_FILE = "key.json", "files.json"
_UNWRITABLE = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
    *(errno.EMFILE, errno.ENFILE, None),  # None: numpy says only how much it could not write
)
_SHARDS = ".shards"
"""Ends the name of a folder with finished shards."""
_SHARDS_SECONDS = 7 * 24 * 3600.0
"""After so long without a new shard nobody is expected to go on with a build, and another one removes its shards."""


def no_progress(label: str, done: int, total: int) -> None:
    """Ignore how far an index has come."""


class Store:
    """Index folders by content. A folder gets its name only when it is complete: it is built elsewhere and moved.

    What a killed process leaves, the next one that builds removes. Two processes may build the same index; the first to
    finish gives it its name. A folder whose files have changed is built anew. An index that is built in shards goes on
    where an interrupted build of it was.
    """

    def __init__(
        self, root: Path | None = None, progress: ProgressCallback = no_progress, executor: Executor | None = None
    ) -> None:
        """Take the folder of all indexes (default: in the user's cache), a callback for progress, and who builds."""
        self.root = root or cache_folder() / "indexes"
        self._progress = progress
        self._executor = executor or InlineExecutor()

    def progress(self, label: str, done: int, total: int, /) -> None:
        """Report how far an index has come."""
        if done:
            reach("index.building")
        self._progress(label, done, total)

    def built(self, kind: str, key: Mapping[str, Any], build: Callable[[Path], None]) -> Path:
        """Return the folder for this key; if there is none yet, ``build`` is called with an empty folder to fill."""
        text = _key_text(key)
        final = self._final(kind, text)
        if _is_complete(final):
            return final
        with self._writing():
            remove_leftovers(self.root, ".*-*.*")
            remove_leftovers(self.root, f"*{_SHARDS}", unused_seconds=_SHARDS_SECONDS)
            _remove_damaged(final)
            with locked_folder(self.root, final.name) as fresh:
                reach("index.opened")
                build(fresh)
                reach("index.built")
                (fresh / KEY_FILE).write_bytes(text.encode("utf-8", "surrogatepass") + b"\n")
                _write_manifest(fresh)
                reach("index.complete")
                _publish(fresh, final)
                reach("index.published")
        return final

    def sharded(self, kind: str, key: Mapping[str, Any], index: ShardedIndex) -> Path:
        """Return the folder for this key; if there is none yet, its shards are done and joined.

        Finished shards are kept in a folder beside it until the index has its name.
        """
        final = self._final(kind, _key_text(key))
        if _is_complete(final):
            return final
        from kshot.index.shards import finished_parts  # it needs numpy

        with self._writing(), resumable_folder(self.root, f"{final.name}{_SHARDS}") as kept:
            return self.built(
                kind,
                key,
                lambda folder: index.join(folder, finished_parts(index, kept, self._executor, self.progress)),
            )

    def _final(self, kind: str, text: str) -> Path:
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
        return self.root / f"{kind}-{digest}"

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Make the folder of all indexes; what cannot be written there is one clear error."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as exc:
            ours = Path(os.fsdecode(exc.filename or self.root)).is_relative_to(self.root)
            if (ours and exc.errno in _UNWRITABLE) or not self.root.is_dir():
                raise RunError(
                    f"no index can be kept there: {exc.strerror or exc}",
                    where=str(self.root),
                    hint=disk_hint(exc, "set KSHOT_CACHE"),
                ) from exc
            raise


def _key_text(key: Mapping[str, Any]) -> str:
    return json.dumps(key, sort_keys=True, ensure_ascii=False)


def unwritten(folder: Path, exc: Exception) -> RunError:
    """Return the error for an index that a library could not write."""
    hint = "Free some space, or set KSHOT_CACHE."
    return RunError(f"no index can be kept there: {exc}", where=str(folder.parent), hint=hint)


def damaged(folder: Path, exc: Exception) -> BackendError:
    """Return the error for an index whose files are unchanged and still cannot be read."""
    return BackendError(f"this index is damaged: {exc}", where=str(folder), hint="Remove the folder and run again.")


def _is_complete(folder: Path) -> bool:
    """Whether every file is as it was built: not modified since then, or, if it was, with the same content."""
    try:
        files: dict[str, list[Any]] = json.loads((folder / MANIFEST_FILE).read_bytes())
        return all(_is_unchanged(folder / name, *known) for name, known in files.items())
    except (OSError, ValueError, AttributeError, TypeError):
        return False


def _is_unchanged(path: Path, size: int, modified: int, digest: str) -> bool:
    found = path.stat()
    return found.st_size == size and (found.st_mtime_ns == modified or _file_digest(path) == digest)


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file).hex()


def _write_manifest(folder: Path) -> None:
    """List the files with sizes and digests, and flush all to the disk: a power cut must not leave an empty file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    known = {
        str(path.relative_to(folder)): [path.stat().st_size, path.stat().st_mtime_ns, _file_digest(path)]
        for path in files
    }
    (folder / MANIFEST_FILE).write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    sync_all(folder)


def _publish(fresh: Path, final: Path) -> None:
    try:
        fresh.rename(final)
        sync_folder(final.parent)
    except OSError:
        if not _is_complete(final):  # otherwise another process was first, with the same content
            raise


def _remove_damaged(final: Path) -> None:
    """Remove a damaged folder; a process that has its files open can read them until it closes them."""
    if final.is_dir() and not _is_complete(final):
        away = final.with_name(f".{final.name}.damaged-{os.getpid()}")
        with suppress(FileNotFoundError):  # another process was first
            final.rename(away)
            reach("index.damaged_moved")
        shutil.rmtree(away, ignore_errors=True)
