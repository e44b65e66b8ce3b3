"""Data given by URL: fetched once, kept in the cache, then read like any folder."""

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

_TIMEOUT = 60
_DEEP = 3
_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
_LINK = re.compile(r"""href=["']([^"'?#]+)["']""", re.IGNORECASE)


def is_url(text: str) -> bool:
    """Whether this names something on the web."""
    return text.startswith(("http://", "https://"))


def local(given: str | Path) -> Path:
    """Give the path of what is named: as it is, or where a URL's file, archive or folder listing was saved."""
    if not isinstance(given, str) or not is_url(given):
        return Path(given).expanduser()
    base = os.environ.get("KSHOT_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "kshot"
    root = Path(base).expanduser() / "downloads"
    final = root / hashlib.blake2b(given.encode(), digest_size=12).hexdigest()
    if not final.is_dir():
        try:
            root.mkdir(parents=True, exist_ok=True)
            fresh = Path(tempfile.mkdtemp(prefix=".fetching.", dir=root))
        except OSError as exc:
            raise DataError(f"nothing can be kept there: {exc}", where=str(root), hint="Set KSHOT_CACHE.") from exc
        try:
            _fetch(given, fresh)
            if not final.is_dir():
                fresh.rename(final)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    held = list(final.iterdir())
    return held[0] if len(held) == 1 else final


def _fetch(url: str, folder: Path) -> None:
    body, kind = _get(url)
    name = unquote(Path(urlsplit(url).path).name) or "index"
    if kind == "text/html" and not name.endswith((".html", ".htm")):
        _fetch_listing(url, body, folder, _DEEP)
        return
    file = folder / name
    file.write_bytes(body)
    if zipfile.is_zipfile(file) or tarfile.is_tarfile(file):
        _unpack(file, folder)
    elif name.lower().endswith(_ARCHIVES):
        raise DataError("this is no whole archive", where=url, hint="Fetch it again later, or look at it by hand.")


def _fetch_listing(url: str, page: bytes, folder: Path, deep: int) -> None:
    """Fetch what a folder's listing links to, below that folder only."""
    base = url if url.endswith("/") else url + "/"
    for link in dict.fromkeys(_LINK.findall(page.decode("utf-8", "replace"))):
        target = urljoin(base, link)
        rest = unquote(target.removeprefix(base))
        inside = (folder / rest).resolve().is_relative_to(folder.resolve()) if "\0" not in rest else False
        if not target.startswith(base) or not rest or rest.startswith(".") or "\\" in rest or not inside:
            continue
        if rest.endswith("/"):
            if deep:
                below = folder / rest.strip("/")
                below.mkdir(parents=True, exist_ok=True)
                _fetch_listing(target, _get(target)[0], below, deep - 1)
        elif "/" not in rest:
            (folder / rest).write_bytes(_get(target)[0])
    if not any(folder.iterdir()):
        raise DataError("nothing was found there", where=url, hint="Give the URL of a file, an archive or a listing.")


def _get(url: str) -> tuple[bytes, str]:
    try:
        with urlopen(Request(url, headers={"User-Agent": "kshot"}), timeout=_TIMEOUT) as reply:  # noqa: S310 - http(s) only, see is_url
            return reply.read(), str(reply.headers.get_content_type())
    except (URLError, HTTPException, OSError, ValueError) as exc:
        why = getattr(exc, "reason", None) or str(exc) or repr(exc)
        raise DataError(f"it cannot be fetched: {why}", where=url) from exc


def _unpack(file: Path, folder: Path) -> None:
    """Unpack an archive beside itself; a member that would leave the folder is refused."""
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                _inside(archive.namelist(), folder, file)
                archive.extractall(folder)  # noqa: S202 - the names were checked
        else:
            with tarfile.open(file) as packed:
                _inside(packed.getnames(), folder, file)
                packed.extractall(folder, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, OSError, RuntimeError, EOFError, zlib.error) as exc:
        raise DataError(f"the archive cannot be unpacked: {exc}", where=str(file)) from exc
    file.unlink()


def _inside(names: list[str], folder: Path, file: Path) -> None:
    for name in names:
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise DataError(f"it would write outside its folder: {name}", where=str(file))
