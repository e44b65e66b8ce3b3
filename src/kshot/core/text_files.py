"""Files and JSON that strangers made, read with limits; and file names that are portable and stay in their folder."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, AnyStr

from kshot.core.errors import DataError, RunError

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


# ---- JSON: whatever is wrong with it is a ValueError, and no value is nested without end ----

MAX_DEPTH = 100
"""Deeper lists and objects are refused: what walks through them later would reach Python's limit of calls."""


_TOO_DEEP = f"it is nested too deeply, more than {MAX_DEPTH} lists and objects within each other"


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; a text that is not JSON is a ``JSONDecodeError``, any other fault its base."""
    with _named_faults():
        value = json.loads(text)
    opened = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    return _checked_depth(value, opened)


def parse_first_json(text: str, start: int = 0) -> tuple[Any, int]:
    """Return the first JSON value from this place on, and where it ends; faults are those of ``parse_json``."""
    with _named_faults():
        value, end = json.JSONDecoder().raw_decode(text, start)
    return _checked_depth(value, text.count("[", start, end) + text.count("{", start, end)), end


@contextmanager
def _named_faults() -> Iterator[None]:
    try:
        yield
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError:  # Python reads no whole number of more than some thousand digits
        raise ValueError("it holds a number of too many digits") from None


def _checked_depth(value: Any, opened: int) -> Any:
    """Return the value, whose text opens so many lists and objects; one that is nested too deeply is an error."""
    if opened <= MAX_DEPTH:
        return value
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for each in level
            if isinstance(each, (dict, list))
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return value
    raise ValueError(_TOO_DEEP)


# ---- files that are named after foreign texts ----

_MAX_CHARACTERS = 120
"""File systems allow 255 bytes; a suffix and a prefix must fit too."""

_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)
"""What Windows takes for a device, whatever suffix follows."""


class FileNames:
    """Gives each foreign name, such as that of a model or a task, a file name of its own.

    Two names that a file system cannot tell apart, because they differ in case or in characters that are replaced, get
    different file names. The same names in the same order get the same ones.
    """

    def __init__(self, filler: str = "-", taken: Iterable[str] = ()) -> None:
        """``filler`` stands for characters that file names do without; ``taken`` are names that no text gets."""
        self._filler = filler
        self._owners: dict[str, str | None] = {name.casefold(): None for name in taken}

    def of(self, text: str) -> str:
        """Return the file name of this text: one part of a path, without a suffix."""
        name = portable(text, self._filler)
        if self._owners.setdefault(name.casefold(), text) != text:
            name = f"{name}{self._filler}{_digest(text)}"
            self._owners[name.casefold()] = text
        return name


def portable(text: str, filler: str = "-") -> str:
    """Return a text as one part of a path that every system accepts: ASCII, neither hidden nor reserved nor too long.

    Different texts may give the same; ``FileNames`` keeps them apart.
    """
    name = re.sub(r"[^A-Za-z0-9._+-]+", filler, text).strip(filler).strip(".")
    if not name:
        return _digest(text)
    if _RESERVED.match(name):
        name = f"_{name}"
    return name if len(name) <= _MAX_CHARACTERS else f"{name[:_MAX_CHARACTERS]}{filler}{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def leaves_folder(name: str) -> bool:
    r"""Whether a relative path would leave its folder on some system: ``../x``, ``/x``, ``C:\x``, or with a NUL."""
    windows = PureWindowsPath(name)
    parts = {*PurePosixPath(name).parts, *windows.parts}
    return bool(".." in parts or name.startswith(("/", "\\")) or windows.is_absolute() or "\0" in name)


def path_inside(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder; one that lies elsewhere, also through links, is refused."""
    try:
        inside = not leaves_folder(name) and (folder / name).resolve().is_relative_to(folder.resolve())
    except (RuntimeError, OSError):  # links in a circle, or a name that is too long
        inside = False
    if not inside:
        what = f"{name!r} lies outside the folder, or is a link to elsewhere"
        raise RunError(what, where=str(folder), hint="kshot neither reads nor writes there.")
    return folder / name
