"""Unpacking archives that strangers made: limits on size, number, ratio and depth; nothing leaves the folder."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from kshot.core.errors import DataError
from kshot.core.file_names import leaves_folder

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
_HINT = "Unpack it yourself, and give the folder."
_COMPRESSIONS: dict[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError, RuntimeError)
"""What the libraries raise for a damaged, encrypted or unknown archive."""


def unpack(file: Path, folder: Path, where: str) -> bool:
    """Unpack a zip or tar file into a folder; return False for a file that is neither. ``where`` names it in errors."""
    try:
        return _unpack(file, folder, where)
    except (*_DAMAGE, ValueError, LookupError, NotImplementedError, RecursionError) as exc:
        why = exc.strerror if isinstance(exc, OSError) and exc.strerror else exc
        raise DataError(f"the archive cannot be unpacked: {why}", where=where, hint=_HINT) from exc


def _unpack(file: Path, folder: Path, where: str) -> bool:
    budget = _Budget(file, where)
    if zipfile.is_zipfile(file):
        _check_directory(file, where)
        with zipfile.ZipFile(file) as archive:
            _write(_zip_members(archive), folder, budget)
        return True
    with file.open("rb") as stream:
        start = stream.read(6)
    opened = next((opener for mark, opener in _COMPRESSIONS.items() if start.startswith(mark)), None)
    if opened is None:
        return _unpack_tar(file, folder, budget)
    # The tar file is written first: then no header can ask for more memory than the limits allow.
    plain = file.with_name(f"{file.name}.tar")
    with opened(file) as packed, plain.open("xb") as out:
        budget.copy(packed, out)
    return _unpack_tar(plain, folder, _Budget(file, where))


def _unpack_tar(file: Path, folder: Path, budget: _Budget) -> bool:
    with _TarStream(file) as stream:
        stream.where = budget.where
        try:
            archive = tarfile.open(fileobj=stream, mode="r:")  # noqa: SIM115 - it is closed below
        except tarfile.TarError:
            return False
        with archive:
            _write(_tar_members(archive), folder, budget)
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


def _zip_members(archive: zipfile.ZipFile) -> Iterator[tuple[str, Callable[[], IO[bytes]] | None]]:
    """Yield the name of every member, and what opens it; None for a folder."""
    for member in archive.infolist():
        if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise NotImplementedError(f"{member.filename} is compressed in a way that cannot be limited")
        yield member.filename, None if member.is_dir() else partial(archive.open, member)


def _tar_members(archive: tarfile.TarFile) -> Iterator[tuple[str, Callable[[], IO[bytes]] | None]]:
    """Yield the members; a link becomes a copy of the member that it names, and no link is ever made."""
    for member in archive:
        if member.isdir():
            yield member.name, None
        elif member.isfile() or member.islnk() or member.issym():
            yield member.name, partial(_tar_content, archive, member)
        else:
            raise tarfile.TarError(f"{member.name} is a device or a pipe")


def _tar_content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    try:
        found = archive.extractfile(member)
    except KeyError:
        found = None
    if found is None:
        raise tarfile.TarError(f"{member.name} is a link to {member.linkname}, which is no file of the archive")
    return found


def _write(members: Iterator[tuple[str, Callable[[], IO[bytes]] | None]], folder: Path, budget: _Budget) -> None:
    for name, opened in members:
        budget.count_file()
        path = folder.joinpath(*_checked_parts(name, budget.where))
        if opened is None:
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with opened() as source, path.open("xb") as out:
            budget.copy(source, out)


def _checked_parts(name: str, where: str) -> tuple[str, ...]:
    """Return the parts of a member's path. Two that the file system takes for one are an error when it is opened."""
    parts = PurePosixPath(name).parts
    if leaves_folder(name) or "\\" in name:
        raise DataError(f"the archive would write outside its folder: {name}", where=where, hint=_HINT)
    if len(parts) > _MAX_DEPTH or any(len(part.encode("utf-8", "replace")) > _MAX_NAME_BYTES for part in parts):
        what = f"a name is longer than {_MAX_NAME_BYTES} bytes, or deeper than {_MAX_DEPTH} folders: {name[:80]}"
        raise DataError(what, where=where, hint=_HINT)
    return parts
