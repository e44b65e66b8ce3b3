"""Which index files this user's kshot has made. A run folder may come from a stranger, and its index may lie.

The digest of each index that was made is the name of an empty file in the user's cache, so that it holds wherever the
run folder is moved. Without the cache, an index is made again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from kshot.core.text_files import regular_file
from kshot.core.work_folders import cache_folder

_CHUNK = 1 << 20
_MOST_SEALS = 10_000


def seal(path: Path) -> None:
    """Remember that an index was made here; where nothing can be written, it will be made again."""
    with suppress(OSError):
        place = _place(path)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _forget_old(place.parent)
        place.touch()


def is_sealed(path: Path) -> bool:
    """Whether an index is, byte for byte, one that was made here."""
    try:
        os.utime(_place(path))  # it is in use
    except OSError:
        return False
    return True


def _place(path: Path) -> Path:
    digest = blake2b(digest_size=32)
    with open(path, "rb", buffering=0, opener=regular_file) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return cache_folder() / "viewer" / "made" / digest.hexdigest()


def _forget_old(folder: Path) -> None:
    """Remove the older half of the seals, where there are very many."""
    with os.scandir(folder) as entries:
        seals = list(entries)
    if len(seals) >= _MOST_SEALS:
        for each in sorted(seals, key=lambda entry: entry.stat().st_mtime)[: len(seals) // 2]:
            Path(each).unlink(missing_ok=True)
