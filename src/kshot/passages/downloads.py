"""Downloads from servers that nobody vouches for: limits on size, number and time, and no way to other places."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import URLError
from urllib.parse import urlsplit
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

from kshot.core.errors import DataError
from kshot.core.text_files import leaves_folder

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


@contextmanager
def _opened(url: str) -> Iterator[Any]:
    """Open a URL with what reads the web alone: the usual opener reads files and FTP servers too."""
    opener = OpenerDirector()
    for handler in (
        *(ProxyHandler(), HTTPHandler(), HTTPSHandler(), _SafeRedirects()),
        *(HTTPDefaultErrorHandler(), HTTPErrorProcessor()),
    ):
        opener.add_handler(handler)
    with opener.open(Request(url, headers={"User-Agent": "kshot"}), timeout=_WAIT_SECONDS) as reply:  # noqa: S310 - the opener knows http and https only
        yield reply


def name_in_folder(text: str) -> str | None:
    """Return the name of a file as a server gives it; None if it is hidden, has folders, or is no name."""
    bad = not text or text.startswith(".") or "/" in text or "\\" in text or leaves_folder(text)
    return None if bad or len(text.encode("utf-8", "replace")) > 200 or not text.isprintable() else text  # noqa: PLR2004 - what a file system holds, less a suffix
