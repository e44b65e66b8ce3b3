"""Reading files that strangers made, with limits: what never ends must not fill the memory."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from kshot.core.errors import DataError

MAX_LINE_CHARACTERS = 256 << 20
MAX_WHOLE_BYTES = 2 << 30
"""The size of a file that is read at once, such as a JSON list or a document."""


def check_regular(path: Path) -> None:
    """Raise ``OSError`` if there is no such file, and for a device or a pipe, which may have no end."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file", str(path))


def read_whole(path: Path) -> bytes:
    """Return the bytes of a file; raise ``OSError`` if it cannot be read."""
    check_regular(path)
    if (size := path.stat().st_size) > MAX_WHOLE_BYTES:
        raise DataError(
            f"it has {size / 1e9:.1f} GB, above the limit of {MAX_WHOLE_BYTES >> 30} GB for a file that is read whole",
            where=str(path),
            hint="Cut it into several files, or write rows as JSON lines.",
        )
    return path.read_bytes()


def lines_of(file: IO[str], where: object) -> Iterator[str]:
    """Yield the lines of an open text file; a line without end is an error that names the file and the line."""
    number = 0
    while line := file.readline(MAX_LINE_CHARACTERS + 1):
        number += 1
        if len(line) > MAX_LINE_CHARACTERS:
            raise DataError(
                f"this line is above the limit of {MAX_LINE_CHARACTERS >> 20} million characters",
                where=f"{where}:{number}",
                hint="Each row needs a line of its own.",
            )
        yield line
