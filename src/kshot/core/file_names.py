"""Files that are named after foreign texts: every name is portable, distinct, and stays in its folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath

from kshot.core.errors import RunError

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
