"""What a server's refusal means: try again, give this sample up, or stop the run."""

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

_AGAIN = frozenset({408, 409, 425, 429})
_TOO_MANY, _NO_KEY, _OUT_OF_MONEY, _FORBIDDEN, _MISSING = 429, 401, 402, 403, 404
_SERVER_FAULT = 500
_SPENT = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
_SHOWN = 300
_SECRET = re.compile(r"(?i)\b(?:sk|key|xai|gsk)-[\w*.-]{6,}|(?<=bearer )\S+")
KEPT = "What was answered is kept: the same command goes on from there."


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer: its status, its JSON (None where it is not whole), its headers."""

    status: int
    body: Any
    headers: Mapping[str, str]
    text: str = ""

    @property
    def fault(self) -> tuple[str, str, str]:
        """The server's own words for what is wrong, its code for it, and the parameter it names."""
        error = self.body.get("error", self.body) if isinstance(self.body, dict) else None
        if isinstance(error, dict):
            message = error.get("message") or error.get("detail") or json.dumps(error, ensure_ascii=False)
            return shortened(str(message)), str(error.get("code") or error.get("type") or ""), str(error.get("param"))
        return shortened(str(error or self.text)), "", ""


class Transient(Exception):  # noqa: N818 - a state of affairs, not a fault of kshot
    """This try gave nothing; another may. ``crowded``: the server says that it is asked too much."""

    def __init__(
        self, what: str, *, crowded: bool = False, after: float | None = None, throttled: bool = False
    ) -> None:
        super().__init__(what)
        self.crowded, self.after, self.throttled = crowded, after, throttled


class Refused(Exception):  # noqa: N818 - it carries a Failed
    """This request will not be answered."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message)
        self.failed = failed


def shortened(text: str) -> str:
    """One line that is not too long, and without a key that a server may quote."""
    printable = text.encode("utf-8", "replace").decode()
    line = _SECRET.sub("…", " ".join(printable.split()))
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def judged(answer: Answer, *, where: str, key_name: str, answered: bool) -> Exception:
    """Say what a status other than 200 means. ``answered``: the server has answered others already."""
    status = answer.status
    message, code, _ = answer.fault
    said = f"the server says {status}: {message}" if message else f"the server says {status}"
    if (status in _AGAIN or status >= _SERVER_FAULT) and code not in _SPENT:
        crowded = status == _TOO_MANY or status >= _SERVER_FAULT
        return Transient(said, crowded=crowded, after=retry_after(answer.headers), throttled=status == _TOO_MANY)
    hint = ""
    if code in _SPENT or status == _OUT_OF_MONEY:
        hint = f"The account has no credit left. {KEPT}"
    elif status == _NO_KEY or (status == _FORBIDDEN and not answered):
        hint = f"Set {key_name} in the environment to a key that it takes."
    elif status == _MISSING and not answered:
        hint = "Look at the model's name and --base-url; a chat model is asked with --model-type chat."
    elif 300 <= status < 400:  # noqa: PLR2004 - moved
        hint = f"It sends on to {shortened(answer.headers.get('Location', 'elsewhere'))}: give that as --base-url."
    if hint:  # it would be the same for every sample
        return BackendError(said, where=where, hint=hint)
    filtered = "content_filter" in code or "content_policy" in code
    return Refused(Failed("content_filter" if filtered else f"http_{status}", said))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from ``retry-after-ms`` or ``Retry-After`` as seconds or as a date; None where neither says."""
    given = headers.get("retry-after-ms"), headers.get("Retry-After")
    for text, unit in zip(given, (1e-3, 1.0), strict=True):
        if text is None:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            seconds = _until(text)
        if 0 < seconds < float("inf"):
            return seconds
    return None


def _until(date: str) -> float:
    try:
        then = parsedate_to_datetime(date)
    except (ValueError, TypeError):
        return 0.0
    if then.tzinfo is None:
        then = then.replace(tzinfo=timezone.utc)
    return (then - datetime.now(timezone.utc)).total_seconds()
