"""Reading replies with limits: whatever a server sends, it takes bounded memory and gets a named failure."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import AsyncIterator
from typing import Any

from kshot.core.errors import UsageError
from kshot.core.text_files import parse_json

ACCEPT_ENCODING = "gzip, deflate"
"""What kshot asks for; other encodings would need packages that not everybody has."""
MAX_ERROR_BYTES = 10**6
"""The most that is read of an HTTP error."""
MAX_VALUES = 4 * 10**6
"""The most values of a reply: each takes about ten times its text in memory."""

MAX_MEMBERS = 10_000
"""The most parts of a gzip: each takes some time, however little it holds."""

_GZIP, _DEFLATE = ("gzip", "x-gzip"), ("deflate",)
_GZIP_START = b"\x1f\x8b\x08"
_DEFLATE_WINDOWS = (15, -15)
"""With the head and the checksum of zlib, as the standard says, and without, as some servers send it."""
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_SIZE = re.compile(r"(\d{1,12})\s*([kmg]?b?)", re.IGNORECASE | re.ASCII)


class TooLargeError(Exception):
    """A reply that exceeds a limit."""


class UnreadableError(Exception):
    """A reply that another try would not make readable."""


class BrokenError(Exception):
    """A reply that was damaged or cut on its way: another try may bring it whole."""


def bytes_of(size: str) -> int:
    """Read a size such as ``64MB``, ``500kB`` or ``100000``."""
    found = _SIZE.fullmatch(size.strip())
    unit = found[2].lower() if found else ""
    if found is None or unit not in _UNITS or int(found[1]) < 1:
        raise UsageError(f"--max-reply is {size!r:.40}", hint="Write bytes, or a number with kB, MB or GB: 64MB.")
    return int(found[1]) * _UNITS[unit]


async def read_limited(parts: AsyncIterator[bytes], limit: int) -> tuple[bytes, bool]:
    """Read a body up to a limit; the second value says whether there is more."""
    found = bytearray()
    async for part in parts:
        found += part
        if len(found) > limit:
            return bytes(found[:limit]), True
    return bytes(found), False


def unpacked(raw: bytes, encoding: str, limit: int) -> tuple[bytes, bool]:
    """Decompress a body up to a limit; the second value says whether there is more."""
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return raw, False
    if name not in {*_GZIP, *_DEFLATE}:
        raise UnreadableError(f"it is encoded as {name!r:.40}, and kshot asks for {ACCEPT_ENCODING}")
    found = _gunzipped(raw, limit + 1) if name in _GZIP else _inflated(raw, limit + 1)
    return found[:limit], len(found) > limit


def _gunzipped(raw: bytes, size: int) -> bytes:
    """Decompress up to so many bytes: all members, each with its checksum."""
    if raw.count(_GZIP_START) > MAX_MEMBERS:
        raise TooLargeError(f"its gzip has more than {MAX_MEMBERS:,} members")
    try:
        return gzip.GzipFile(fileobj=io.BytesIO(raw)).read(size)
    except EOFError:
        raise BrokenError("its gzip is not complete") from None
    except (OSError, zlib.error):
        raise BrokenError("its gzip is damaged") from None


def _inflated(raw: bytes, size: int) -> bytes:
    for window in _DEFLATE_WINDOWS:
        decoder = zlib.decompressobj(window)
        try:
            found = decoder.decompress(raw, size)
        except zlib.error:
            continue
        if decoder.eof or len(found) == size:
            return found
        raise BrokenError("its deflate is not complete")
    raise BrokenError("its deflate is damaged")


def parsed(raw: bytes) -> tuple[Any, str]:
    """Return the JSON value of a body and its text; a body that is not JSON raises ValueError."""
    if len(raw) > MAX_VALUES and sum(map(raw.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise TooLargeError(f"it holds more than {MAX_VALUES:,} values")
    written = raw.decode(json.detect_encoding(raw), "surrogatepass")
    try:
        return parse_json(written), written
    except json.JSONDecodeError:
        raise
    except ValueError as exc:
        raise UnreadableError(str(exc)) from None
