"""Reading files that strangers made, with limits: what never ends must not fill the memory."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO, AnyStr

from kshot.core.errors import DataError

MAX_LINE_CHARACTERS = 256 << 20
MAX_WHOLE_BYTES = 2 << 30
"""The size of a file that is read at once, such as a JSON list or a document."""
MAX_SETTINGS_BYTES = 256 << 20
"""The size of a file that describes a run, or of a template."""
_BLOCK = 1 << 20
_DEVICE = "it is a device or a pipe, not a file"


class FileTooLargeError(OSError):
    """A file above the limit of what is read at once."""


def check_regular(path: Path) -> None:
    """Raise ``OSError`` if there is no such file, and for a device or a pipe, which may have no end."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, _DEVICE, str(path))


def is_plain(path: Path) -> bool:
    """Whether there is a file, not a link, a folder or a device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def regular_file(path: str | Path, flags: int) -> int:
    """Open a file and return its descriptor; a device or a pipe is an ``OSError`` at once: opening one may wait.

    It fits the argument ``opener`` of ``open``.
    """
    try:
        descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o644)
    except OSError as exc:
        if exc.errno == errno.ENXIO:  # a pipe that nobody reads, or a socket
            raise OSError(errno.EINVAL, _DEVICE, str(path)) from exc
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        check_regular(Path(path))
        raise OSError(errno.EINVAL, _DEVICE, str(path))
    return descriptor


def is_still_at(descriptor: int, real: Path) -> bool:
    """Whether an open file or folder is at a path without links: no folder of it became a link before it was opened."""
    try:
        opened = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    except OSError:  # not Linux
        opened = os.path.realpath(real)
    return opened == str(real)


def read_at_most(path: Path, limit: int = MAX_SETTINGS_BYTES) -> bytes:
    """Return the bytes of a file; raise ``OSError`` if it cannot be read or has more bytes than the limit."""
    check_regular(path)
    content = BytesIO()
    with open(path, "rb", opener=regular_file) as file:
        size = os.fstat(file.fileno()).st_size
        while size <= limit and (block := file.read(_BLOCK)):
            size = max(size, content.tell() + len(block))  # it may have more bytes than it says
            content.write(block)
    if size > limit:
        what = f"it has {size / 1e9:.1f} GB, above the limit of {limit / (1 << 30):g} GB for a file that is read whole"
        raise FileTooLargeError(errno.EFBIG, what, str(path))
    return content.getvalue()


def read_text(path: Path) -> str:
    """Return the text of a template or a prompt; raise ``OSError`` or ``UnicodeDecodeError`` if it cannot be read."""
    return TextIOWrapper(BytesIO(read_at_most(path)), encoding="utf-8").read()


def read_whole(path: Path) -> bytes:
    """Return the bytes of a file of data; raise ``OSError`` if it cannot be read."""
    try:
        return read_at_most(path, MAX_WHOLE_BYTES)
    except FileTooLargeError as exc:
        hint = "Cut it into several files, or write rows as JSON lines."
        raise DataError(exc.strerror or "", where=str(path), hint=hint) from exc


def lines_of(file: IO[AnyStr], where: object) -> Iterator[AnyStr]:
    """Yield the lines of an open file; a line without end is an error that names the file and the line."""
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
