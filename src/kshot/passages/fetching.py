"""Data given by URL: it is fetched once, kept in the cache, and then read like any folder."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from kshot.core.errors import DataError
from kshot.core.kill_points import reach
from kshot.core.work_folders import locked_folder, remove_leftovers, sync_all
from kshot.passages.downloads import Downloads, name_in_folder
from kshot.passages.unpacking import unpack

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
    base = os.environ.get("KSHOT_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "kshot"
    root = Path(base).expanduser() / "downloads"
    final = root / hashlib.blake2b(location.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    remove_leftovers(root, ".fetching.*")
    if not final.is_dir():
        _save(location, root, final)
    saved = list(final.iterdir())
    return saved[0] if len(saved) == 1 else final


def _save(url: str, root: Path, final: Path) -> None:
    """Fetch into a hidden folder, which gets its name when it is complete."""
    with ExitStack() as stack:
        try:
            root.mkdir(parents=True, exist_ok=True)
            work = stack.enter_context(locked_folder(root, "fetching"))
        except OSError as exc:
            raise DataError(f"the cache cannot be written: {exc}", where=str(root), hint="Set KSHOT_CACHE.") from exc
        reach("download.opened")
        fresh = work / "files"  # beside it stands what is downloaded and not kept
        fresh.mkdir()
        _fetch(url, fresh, work)
        sync_all(fresh)
        reach("download.complete")
        if not final.is_dir():
            fresh.rename(final)
        reach("download.published")


def _fetch(url: str, folder: Path, work: Path) -> None:
    downloads = Downloads()
    body = work / "body"
    kind = downloads.fetch(url, body)
    name = name_in_folder(unquote(Path(urlsplit(url).path).name)) or "index"
    if kind == "text/html" and not name.endswith((".html", ".htm")):
        _fetch_listing(url, body, folder, _MAX_DEPTH, downloads)
        return
    if unpack(body, folder, url):
        if not any(folder.iterdir()):
            raise DataError("the archive is empty", where=url, hint="Check the file behind this URL.")
        return
    if name.lower().endswith(_ARCHIVE_SUFFIXES):
        raise DataError("this is not a complete archive", where=url, hint="Check the file behind this URL.")
    body.rename(folder / name)


def _fetch_listing(url: str, page: Path, folder: Path, depth: int, downloads: Downloads) -> None:
    """Fetch what the listing of a folder links to; links that leave the folder are skipped."""
    base = url if url.endswith("/") else url + "/"
    text = _listing_text(url, page)
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


def _listing_text(url: str, page: Path) -> str:
    """Return a listing, and delete its file: the next one takes its place."""
    if page.stat().st_size > _MAX_LISTING_BYTES:
        raise DataError(f"the listing is larger than {_MAX_LISTING_BYTES >> 20} MB", where=url)
    text = page.read_bytes().decode("utf-8", "replace")
    page.unlink()
    return text
