"""Data given by URL: it is fetched once, kept in the cache, and then read like any folder.

Nobody vouches for the servers: there are limits on size, number and time, and no way to other places.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import URLError
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from kshot.core.durable import open_new, sync, sync_folder
from kshot.core.errors import DataError
from kshot.core.kill_points import reach
from kshot.core.text_files import leaves_folder
from kshot.core.work_folders import cache_folder, locked_folder, remove_leftovers, sync_all
from kshot.passages.unpacking import unpack

MAX_BYTES = 2 << 30
"""The size of everything that one location gives."""

MAX_FILES = 10_000
MAX_SECONDS = 3600
"""A server that sends a byte now and then must not hold a run for days."""

_WAIT_SECONDS = 60
_BLOCK_BYTES = 1 << 16
_HINT = "Download it yourself, and give the file or folder."


class Downloads:
    """Fetches the files of one location, and counts them against the limits."""

    def __init__(self) -> None:
        self._bytes = self._files = 0
        self._started = time.monotonic()

    def fetch(self, url: str, file: Path) -> str:
        """Write what is behind a URL to a new file, and return its content type."""
        if "@" in urlsplit(url).netloc:
            raise DataError("a URL with a password is not fetched", where=f"{urlsplit(url).hostname}", hint=_HINT)
        self._files += 1
        if self._files > MAX_FILES:
            raise _over("the number of files", f"{MAX_FILES:,}", url)
        try:
            with _opened(url) as reply, file.open("xb") as out:
                self._copy(reply, out, url)
                return str(reply.headers.get_content_type())
        except (URLError, HTTPException, OSError, ValueError) as exc:
            file.unlink(missing_ok=True)
            why = (exc.reason if isinstance(exc, URLError) else None) or str(exc) or repr(exc)
            raise DataError(f"it cannot be fetched: {why}", where=url) from exc

    def _copy(self, reply: Any, out: IO[bytes], url: str) -> None:
        before = self._bytes
        while block := reply.read1(_BLOCK_BYTES):
            self._bytes += len(block)
            if self._bytes > MAX_BYTES:
                raise _over("the size", f"{MAX_BYTES >> 30} GB", url)
            if time.monotonic() - self._started > MAX_SECONDS:
                raise _over("the time", f"{MAX_SECONDS // 60} minutes", url)
            out.write(block)
        promised, received = reply.headers.get("Content-Length"), self._bytes - before
        if promised is not None and received != int(promised):
            raise OSError(f"the server promised {promised} bytes and sent {received}")


def _over(what: str, limit: str, url: str) -> DataError:
    return DataError(f"{what} is above the limit of {limit} for downloads", where=url, hint=_HINT)


class _SafeRedirects(HTTPRedirectHandler):
    """Follows a redirect to the web only: to no other scheme, from https to https, and not into a private network."""

    def redirect_request(  # noqa: PLR0917 - the base class has these arguments
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if after.scheme not in {"http", "https"} or (before.scheme, after.scheme) == ("https", "http"):
            raise URLError(f"it redirects from {before.scheme} to {after.scheme or 'nothing'}, which is not followed")
        if before.hostname != after.hostname and _is_private(after.hostname) and not _is_private(before.hostname):
            raise URLError(f"it redirects to {after.hostname}, an address of a private network, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _is_private(host: str | None) -> bool:
    try:
        found = {address[4][0] for address in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return False  # nothing can be fetched from there
    return any(not ipaddress.ip_address(str(each).partition("%")[0]).is_global for each in found)


def _opened(url: str) -> Any:
    """Open a URL with what reads the web alone: the usual opener reads files and FTP servers too."""
    opener = OpenerDirector()
    for handler in (
        *(ProxyHandler(), HTTPHandler(), HTTPSHandler(), _SafeRedirects()),
        *(HTTPDefaultErrorHandler(), HTTPErrorProcessor()),
    ):
        opener.add_handler(handler)
    return opener.open(Request(url, headers={"User-Agent": "kshot"}), timeout=_WAIT_SECONDS)  # noqa: S310 - the opener knows http and https only


def name_in_folder(text: str) -> str | None:
    """Return the name of a file as a server gives it; None if it is hidden, has folders, or is no name."""
    bad = not text or text.startswith(".") or "/" in text or "\\" in text or leaves_folder(text)
    return None if bad or len(text.encode("utf-8", "replace")) > 200 or not text.isprintable() else text  # noqa: PLR2004 - what a file system holds, less a suffix


_MAX_DEPTH = 3
"""Levels of folders below a listing that are fetched too."""

_MAX_LISTING_BYTES = 16 << 20
_ARCHIVE_SUFFIXES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
_LINK = re.compile(r"""href=["']([^"'?#]+)["']""", re.IGNORECASE)


def is_url(text: str) -> bool:
    """Whether a text is a URL of the web."""
    return text.startswith(("http://", "https://"))


def local_path(location: str | Path) -> Path:
    """Return a path as it is; of a URL, the folder or file where its file, archive or folder listing is saved."""
    if not isinstance(location, str) or not is_url(location):
        return Path(location).expanduser()
    final = _kept_at(location)
    remove_leftovers(final.parent, ".fetching.*")
    if not final.is_dir():
        _save(location, final.parent, final)
    saved = list(final.iterdir())
    return saved[0] if len(saved) == 1 else final


def fetch_notes(data: Sequence[str] | None) -> list[str]:
    """Return what the user should know of what was fetched for ``--data``: for ``URL`` or ``KEY=URL``."""
    locations = [entry if is_url(entry) else entry.partition("=")[2] for entry in data or ()]
    files = [_notes_file(_kept_at(location)) for location in dict.fromkeys(locations) if is_url(location)]
    return [line for file in files if file.is_file() for line in file.read_text("utf-8").splitlines()]


def _kept_at(url: str) -> Path:
    name = hashlib.blake2b(url.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return cache_folder() / "downloads" / name


def _notes_file(final: Path) -> Path:
    return final.with_name(f"{final.name}.notes")


def _save(url: str, root: Path, final: Path) -> None:
    """Fetch into a hidden folder, which gets its name when it is complete."""
    with ExitStack() as stack:
        with _writing(root):
            root.mkdir(parents=True, exist_ok=True)
            work = stack.enter_context(locked_folder(root, "fetching"))
            reach("download.opened")
            fresh = work / "files"  # beside it stands what is downloaded and not kept
            fresh.mkdir()
        notes: list[str] = []
        _fetch(url, fresh, work, notes.append)
        with _writing(root):
            sync_all(fresh)
            reach("download.complete")
            if not final.is_dir():
                _write_notes(url, notes, work, final)
                fresh.rename(final)
                sync_folder(root)
            reach("download.published")


@contextmanager
def _writing(root: Path) -> Iterator[None]:
    """Turn errors of the disk into one clear message."""
    try:
        yield
    except OSError as exc:
        raise DataError(f"the cache cannot be written: {exc}", where=str(root), hint="Set KSHOT_CACHE.") from exc


def _write_notes(url: str, notes: Sequence[str], work: Path, final: Path) -> None:
    """Keep the notes beside the files, so that every run tells them; those of an earlier download go."""
    _notes_file(final).unlink(missing_ok=True)
    if notes:
        file = work / "notes"
        with open_new(file) as opened:
            opened.writelines(f"{url}: {note}\n" for note in notes)
            opened.flush()
            sync(opened.fileno())
        file.rename(_notes_file(final))


def _fetch(url: str, folder: Path, work: Path, note: Callable[[str], None]) -> None:
    downloads = Downloads()
    body = work / "body"
    kind = downloads.fetch(url, body)
    name = name_in_folder(unquote(Path(urlsplit(url).path).name)) or "index"
    if kind == "text/html" and not name.endswith((".html", ".htm")):
        _fetch_listing(url, body, folder, _MAX_DEPTH, downloads)
        return
    if unpack(body, folder, url, note):
        if not any(folder.iterdir()):
            raise DataError("the archive is empty", where=url, hint="Check the file behind this URL.")
        return
    if name.lower().endswith(_ARCHIVE_SUFFIXES):
        raise DataError("this is not a complete archive", where=url, hint="Check the file behind this URL.")
    body.rename(folder / name)


def _fetch_listing(url: str, page: Path, folder: Path, depth: int, downloads: Downloads) -> None:
    """Fetch what the listing of a folder links to; links that leave the folder are skipped."""
    base = url if url.endswith("/") else url + "/"
    if page.stat().st_size > _MAX_LISTING_BYTES:
        raise DataError(f"the listing is larger than {_MAX_LISTING_BYTES >> 20} MB", where=url)
    text = page.read_bytes().decode("utf-8", "replace")
    page.unlink()  # the next listing takes its place
    for target in dict.fromkeys(urljoin(base, link) for link in _LINK.findall(text)):
        below = target.removesuffix("/")
        name = name_in_folder(unquote(below.removeprefix(base)))
        if not target.startswith(base) or name is None or (folder / name).exists():
            continue
        if not target.endswith("/"):
            downloads.fetch(target, folder / name)
        elif depth:
            downloads.fetch(target, page)
            (folder / name).mkdir()
            _fetch_listing(target, page, folder / name, depth - 1, downloads)
    if not any(folder.iterdir()):
        raise DataError("nothing was found there", where=url, hint="Give the URL of a file, an archive or a listing.")
