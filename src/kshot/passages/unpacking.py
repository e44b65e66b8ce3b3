"""Unpacking archives that strangers made: limits on size, number, ratio and depth; nothing leaves the folder."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import posixpath
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeAlias

from kshot.core.errors import DataError
from kshot.core.text_files import leaves_folder
from kshot.core.visible import listed

Members: TypeAlias = Iterator[tuple[str, Callable[[], IO[bytes]] | None]]

MAX_BYTES = 4 << 30
"""The size of everything in an archive, unpacked."""

MAX_FILES = 100_000
MAX_RATIO = 200
"""How many times larger than the archive its content may be; text shrinks to a fifth or a tenth."""

_FREE_BYTES = 64 << 20
"""Up to this size the ratio does not matter."""

_MAX_DEPTH = 32
_MAX_NAME_BYTES = 250
_MAX_HEADER_BYTES = 16 << 20
"""The size of a header of a tar file, and of the directory of a zip file for 100,000 files of usual names."""

_BLOCK_BYTES = 1 << 16
_MAX_LINKS = 40
_SHOWN_NAMES, _SHOWN_LETTERS = 3, 80
_HINT = "Unpack it yourself, and give the folder."
_COMPRESSIONS: dict[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError, RuntimeError)
"""What the libraries raise for a damaged, encrypted or unknown archive."""


def unpack(file: Path, folder: Path, where: str, note: Callable[[str], None] = lambda _: None) -> bool:
    """Unpack a zip or tar file into a folder; return False for a file that is neither.

    ``where`` names it in errors; ``note`` is told what is left out. Of two members of one name the last one counts.
    """
    try:
        return _unpack(file, folder, where, note)
    except (*_DAMAGE, ValueError, LookupError, NotImplementedError, RecursionError) as exc:
        why = exc.strerror if isinstance(exc, OSError) and exc.strerror else exc
        raise DataError(f"the archive cannot be unpacked: {why}", where=where, hint=_HINT) from exc


def _unpack(file: Path, folder: Path, where: str, note: Callable[[str], None]) -> bool:
    budget = _Budget(file, where)
    if zipfile.is_zipfile(file):
        _check_directory(file, where)
        with zipfile.ZipFile(file) as archive:
            _write(_zip_members(archive, budget), folder, budget)
        return True
    with file.open("rb") as stream:
        start = stream.read(6)
    opened = next((opener for mark, opener in _COMPRESSIONS.items() if start.startswith(mark)), None)
    if opened is None:
        return _unpack_tar(file, folder, budget, note)
    # The tar file is written first: then no header can ask for more memory than the limits allow.
    plain = file.with_name(f"{file.name}.tar")
    with opened(file) as packed, plain.open("xb") as out:
        budget.copy(packed, out)
    return _unpack_tar(plain, folder, _Budget(file, where), note)


def _unpack_tar(file: Path, folder: Path, budget: _Budget, note: Callable[[str], None]) -> bool:
    with _TarStream(file) as stream:
        stream.where = budget.where
        try:
            archive = tarfile.open(fileobj=stream, mode="r:")  # noqa: SIM115 - it is closed below
        except tarfile.TarError:
            return False
        with archive:
            _write(_tar_members(archive, budget, note), folder, budget)
    return True


class _TarStream(io.FileIO):
    """A tar file; a header that wants more memory than any honest one is refused."""

    where = ""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > _MAX_HEADER_BYTES:
            raise _over("a header", _size(_MAX_HEADER_BYTES), self.where)
        return super().read(size) or b""


def _check_directory(file: Path, where: str) -> None:
    """Refuse a zip file whose directory alone would fill the memory."""
    with file.open("rb") as stream:
        end: Any = zipfile._EndRecData(stream)  # type: ignore[attr-defined]  # noqa: SLF001 - opening it reads all of it
    if end and (end[4] > MAX_FILES or end[5] > _MAX_HEADER_BYTES):
        raise _over("the number of files", f"{MAX_FILES:,}", where)


class _Budget:
    """Counts what is unpacked of one archive."""

    def __init__(self, file: Path, where: str) -> None:
        self.where, self._bytes, self._files = where, 0, 0
        self._by_ratio = max(_FREE_BYTES, MAX_RATIO * file.stat().st_size)

    def count_file(self) -> None:
        self._files += 1
        if self._files > MAX_FILES:
            raise _over("the number of files", f"{MAX_FILES:,}", self.where)

    def spend(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MAX_BYTES:
            raise _over("the unpacked size", _size(MAX_BYTES), self.where)
        if self._bytes > self._by_ratio:
            raise _over("the ratio of unpacked to packed size", f"{MAX_RATIO}", self.where)

    def copy(self, source: IO[bytes], out: IO[bytes]) -> None:
        while block := source.read(_BLOCK_BYTES):
            self.spend(len(block))
            out.write(block)


def _over(what: str, limit: str, where: str) -> DataError:
    return DataError(f"{what} is above the limit of {limit} for archives", where=where, hint=_HINT)


def _size(count: int) -> str:
    return f"{count >> 30} GB" if count >= 1 << 30 else f"{count >> 20} MB"


def _zip_members(archive: zipfile.ZipFile, budget: _Budget) -> Members:
    """Yield the name of every member, and what opens it; None for a folder."""
    for member in archive.infolist():
        budget.count_file()
        if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise NotImplementedError(f"{member.filename} is compressed in a way that cannot be limited")
        yield member.filename, None if member.is_dir() else partial(archive.open, member)


def _tar_members(archive: tarfile.TarFile, budget: _Budget, note: Callable[[str], None]) -> Members:
    """Yield the members; a link becomes a copy of the file that it names, and no link is ever made.

    All headers are read first: a link may name a member that comes later. One that names no file is left out.
    """
    files: dict[str, tarfile.TarInfo] = {}
    for member in archive:
        budget.count_file()
        name = "/".join(_checked_parts(member.name, budget.where))
        if member.isdir():
            yield name, None
        elif member.islnk():  # a second name of what has been packed before
            files[name] = files.get(_target(member, budget.where), member)
        elif member.isfile() or member.issym():
            files[name] = member
        else:
            raise tarfile.TarError(f"{member.name} is a device or a pipe")
    left_out = []
    for name, member in files.items():
        found = _linked(member, files, budget.where)
        if found is None:
            left_out.append(name)
        else:
            yield name, partial(_tar_content, archive, found)
    if left_out:
        shown = listed([f"{name[:_SHOWN_LETTERS]!r}" for name in left_out], _SHOWN_NAMES)
        note(f"{len(left_out)} links are left out, which name no file of the archive: {shown}")


def _linked(member: tarfile.TarInfo, files: dict[str, tarfile.TarInfo], where: str) -> tarfile.TarInfo | None:
    """Return the file that a link leads to; None where there is none, as for a folder or a circle of links."""
    for _ in range(_MAX_LINKS):
        if member.isfile():
            return member
        target = files.get(_target(member, where))
        if target is None:
            return None
        member = target
    return None


def _target(link: tarfile.TarInfo, where: str) -> str:
    """Return the name of the member that a link names; one outside the archive is refused."""
    folder = posixpath.dirname(link.name) if link.issym() else ""
    target = posixpath.normpath(posixpath.join(folder, link.linkname))
    if leaves_folder(target):
        what = f"{link.name[:80]} is a link to {link.linkname[:80]}, which lies outside the archive"
        raise DataError(what, where=where, hint=_HINT)
    return target


def _tar_content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    found = archive.extractfile(member)
    if found is None:
        raise tarfile.TarError(f"{member.name} is no file")
    return found


def _write(members: Members, folder: Path, budget: _Budget) -> None:
    for name, opened in members:
        path = folder.joinpath(*_checked_parts(name, budget.where))
        if opened is None:
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with opened() as source, path.open("xb") as out:
            budget.copy(source, out)


def _checked_parts(name: str, where: str) -> tuple[str, ...]:
    """Return the parts of a member's path."""
    parts = PurePosixPath(name).parts
    if leaves_folder(name) or "\\" in name:
        raise DataError(f"the archive would write outside its folder: {name}", where=where, hint=_HINT)
    if len(parts) > _MAX_DEPTH or any(len(part.encode("utf-8", "replace")) > _MAX_NAME_BYTES for part in parts):
        what = f"a name is longer than {_MAX_NAME_BYTES} bytes, or deeper than {_MAX_DEPTH} folders: {name[:80]}"
        raise DataError(what, where=where, hint=_HINT)
    return parts
