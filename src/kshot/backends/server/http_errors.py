"""What an HTTP error means: try again, give this sample up, or stop the run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from kshot.core.errors import BackendError
from kshot.core.records import Failed

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
