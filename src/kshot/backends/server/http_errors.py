"""What an HTTP error means: try again, give this sample up, or stop the run."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from kshot.core.errors import BackendError, UsageError
from kshot.core.records import Failed
from kshot.core.text_files import parse_json

_TOO_MANY_REQUESTS, _UNAUTHORIZED, _PAYMENT_REQUIRED, _FORBIDDEN, NOT_FOUND = 429, 401, 402, 403, 404
_SERVER_ERROR = 500
_RETRYABLE_STATUSES = frozenset({408, 409, 425, _TOO_MANY_REQUESTS})
_NO_CREDIT_CODES = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
_MAX_MESSAGE_CHARACTERS = 300
_PASSWORD = re.compile(r"(?<=://)[^/\s@]*@")
_KEY_PATTERN = re.compile(r"(?i)\b(?:sk|key|xai|gsk)-[\w*.-]{6,}|(?<=bearer )\S+")


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """What the body of an HTTP error says: a message, a code, and the parameter that it names (empty: none)."""

    message: str
    code: str = ""
    parameter: str = ""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """One HTTP reply: its status, its JSON (None if it is incomplete), its headers, and perhaps its text."""

    status: int
    body: Any
    headers: Mapping[str, str]
    text: str = ""

    @property
    def error(self) -> ErrorDetails:
        """The error that the body describes."""
        error = self.body.get("error", self.body) if isinstance(self.body, dict) else None
        if isinstance(error, dict):
            message = error.get("message") or error.get("detail") or json.dumps(error, ensure_ascii=False)
            code, parameter = error.get("code") or error.get("type") or "", error.get("param")
            named = "" if parameter in (None, "None") else str(parameter)  # Python servers may write str(None)
            return ErrorDetails(shortened(str(message)), str(code), named)
        return ErrorDetails(shortened(str(error or self.text)))


class RetryableError(Exception):
    """This try failed; another one may succeed.

    ``overloaded``: the server gets too many requests. ``rate_limited``: it said so with 429. ``retry_after``: it asks
    to wait for this many seconds. ``complete``: the server answered, but with something else than was asked for.
    """

    def __init__(
        self,
        message: str,
        *,
        overloaded: bool = False,
        retry_after: float | None = None,
        rate_limited: bool = False,
        complete: bool = False,
    ) -> None:
        super().__init__(message)
        self.overloaded, self.retry_after, self.rate_limited = overloaded, retry_after, rate_limited
        self.complete = complete


class RequestFailedError(Exception):
    """This request gets no answer in this run; ``failed`` is the response to it, ``status`` that of a refused body."""

    def __init__(self, failed: Failed, status: int | None = None) -> None:
        super().__init__(failed.message)
        self.failed, self.status = failed, status


class UnsentError(RequestFailedError):
    """This request was not sent: the limit of the run allows no further try."""

    def __init__(self) -> None:
        super().__init__(Failed("limit", "the limit of the run allows no further try", retryable=True))


class HttpStatusError(BackendError):
    """A status that every other request would get too, so it stops the run."""

    def __init__(self, status: int, message: str, *, where: str, hint: str) -> None:
        super().__init__(message, where=where, hint=hint)
        self.status = status


class UnreachableError(BackendError):
    """There is no server at this address, or none that can be trusted."""


def shortened(text: str) -> str:
    """Return the text as one line of limited length, without any key that the server quotes."""
    printable = text.encode("utf-8", "replace").decode()
    line = _KEY_PATTERN.sub("…", _PASSWORD.sub("…@", " ".join(printable.split())))
    return line if len(line) <= _MAX_MESSAGE_CHARACTERS else line[: _MAX_MESSAGE_CHARACTERS - 1] + "…"


def error_from(reply: HttpReply, *, where: str, key_hint: str, answered: bool) -> Exception:
    """Return the error that a status other than 200 means.

    ``key_hint`` says how to give a key. ``answered``: the server has answered other requests.
    """
    status, error = reply.status, reply.error
    code = error.code
    text = f"the server says {status}: {error.message}" if error.message else f"the server says {status}"
    if (status in _RETRYABLE_STATUSES or status >= _SERVER_ERROR) and code not in _NO_CREDIT_CODES:
        rate_limited = status == _TOO_MANY_REQUESTS
        return RetryableError(
            text,
            overloaded=rate_limited or status >= _SERVER_ERROR,
            retry_after=retry_after(reply.headers),
            rate_limited=rate_limited,
        )
    hint = ""
    if code in _NO_CREDIT_CODES or status == _PAYMENT_REQUIRED:
        hint = "The account has no credit left."
    elif status == _UNAUTHORIZED or (status == _FORBIDDEN and not answered):
        hint = key_hint
    elif status == NOT_FOUND and not answered:
        hint = "Check the model's name and --base-url. For a chat model, use --model-type chat."
    elif 300 <= status < 400:  # noqa: PLR2004 - the redirects
        target = shortened(reply.headers.get("Location", "another address"))
        hint = f"kshot follows no redirect. The server names {target}: give that as --base-url if you trust it."
    if hint:
        return HttpStatusError(status, text, where=where, hint=hint)
    filtered = "content_filter" in code or "content_policy" in code
    if filtered:
        return RequestFailedError(Failed("content_filter", text))
    return RequestFailedError(Failed(f"http_{status}", text), status)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait, from ``retry-after-ms`` or ``Retry-After`` (seconds or a date); None without both."""
    given = headers.get("retry-after-ms"), headers.get("Retry-After")
    for text, unit in zip(given, (1e-3, 1.0), strict=True):
        if text is None:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            seconds = _seconds_until(text)
        if 0 < seconds < float("inf"):
            return seconds
    return None


def _seconds_until(date: str) -> float:
    try:
        then = parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError):
        return 0.0
    if then.tzinfo is None:
        then = then.replace(tzinfo=timezone.utc)
    return (then - datetime.now(timezone.utc)).total_seconds()


# ---- reading replies with limits: whatever a server sends takes bounded memory ----

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
