"""Data given by URL: it is fetched once, kept in the cache, and then read like any folder."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from http.client import HTTPException
from pathlib import Path
from urllib.error import URLError
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import Request, urlopen

from kshot.core.errors import DataError

_TIMEOUT_SECONDS = 60
_MAX_DEPTH = 3
"""Levels of folders below a listing that are fetched too."""

_ARCHIVE_SUFFIXES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
_LINK = re.compile(r"""href=["']([^"'?#]+)["']""", re.IGNORECASE)


def is_url(text: str) -> bool:
    """Whether a text is a URL of the web."""
    return text.startswith(("http://", "https://"))


def local_path(location: str | Path) -> Path:
    """Return a path as it is; of a URL, the folder or file where its file, archive or folder listing is saved."""
    if not isinstance(location, str) or not is_url(location):
        return Path(location).expanduser()
    base = os.environ.get("KSHOT_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "kshot"
    root = Path(base).expanduser() / "downloads"
    final = root / hashlib.blake2b(location.encode(), digest_size=12).hexdigest()
    if not final.is_dir():
        try:
            root.mkdir(parents=True, exist_ok=True)
            fresh = Path(tempfile.mkdtemp(prefix=".fetching.", dir=root))
        except OSError as exc:
            raise DataError(f"the cache cannot be written: {exc}", where=str(root), hint="Set KSHOT_CACHE.") from exc
        try:
            _fetch(location, fresh)
            if not final.is_dir():
                fresh.rename(final)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    saved = list(final.iterdir())
    return saved[0] if len(saved) == 1 else final


def _fetch(url: str, folder: Path) -> None:
    body, kind = _get(url)
    name = unquote(Path(urlsplit(url).path).name) or "index"
    if kind == "text/html" and not name.endswith((".html", ".htm")):
        _fetch_listing(url, body, folder, _MAX_DEPTH)
        return
    file = folder / name
    file.write_bytes(body)
    if zipfile.is_zipfile(file) or tarfile.is_tarfile(file):
        _unpack(file, folder)
    elif name.lower().endswith(_ARCHIVE_SUFFIXES):
        raise DataError("this is not a complete archive", where=url, hint="Check the file behind this URL.")


def _fetch_listing(url: str, page: bytes, folder: Path, depth: int) -> None:
    """Fetch what the listing of a folder links to; links that leave the folder are skipped."""
    base = url if url.endswith("/") else url + "/"
    for link in dict.fromkeys(_LINK.findall(page.decode("utf-8", "replace"))):
        target = urljoin(base, link)
        name = unquote(target.removeprefix(base))
        inside = (folder / name).resolve().is_relative_to(folder.resolve()) if "\0" not in name else False
        if not target.startswith(base) or not name or name.startswith(".") or "\\" in name or not inside:
            continue
        if name.endswith("/"):
            if depth:
                below = folder / name.strip("/")
                below.mkdir(parents=True, exist_ok=True)
                _fetch_listing(target, _get(target)[0], below, depth - 1)
        elif "/" not in name:
            (folder / name).write_bytes(_get(target)[0])
    if not any(folder.iterdir()):
        raise DataError("nothing was found there", where=url, hint="Give the URL of a file, an archive or a listing.")


def _get(url: str) -> tuple[bytes, str]:
    try:
        with urlopen(Request(url, headers={"User-Agent": "kshot"}), timeout=_TIMEOUT_SECONDS) as reply:  # noqa: S310 - only http and https, see is_url
            return reply.read(), str(reply.headers.get_content_type())
    except (URLError, HTTPException, OSError, ValueError) as exc:
        why = (exc.reason if isinstance(exc, URLError) else None) or str(exc) or repr(exc)
        raise DataError(f"it cannot be fetched: {why}", where=url) from exc


def _unpack(file: Path, folder: Path) -> None:
    """Unpack an archive into its folder, and delete it; an archive that would write elsewhere is refused."""
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                _check_members(archive.namelist(), folder, file)
                archive.extractall(folder)  # noqa: S202 - the names are checked above
        else:
            with tarfile.open(file) as packed:
                _check_members(packed.getnames(), folder, file)
                packed.extractall(folder, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, OSError, RuntimeError, EOFError, zlib.error) as exc:
        raise DataError(f"the archive cannot be unpacked: {exc}", where=str(file)) from exc
    file.unlink()


def _check_members(names: list[str], folder: Path, file: Path) -> None:
    for name in names:
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise DataError(f"the archive would write outside its folder: {name}", where=str(file))
