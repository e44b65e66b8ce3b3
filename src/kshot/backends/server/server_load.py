"""What one server is asked at the moment: its limits, how fast it answers, and when it was left out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from kshot.backends.server.limits import ConcurrencyLimit, MinuteBudget
from kshot.core.errors import UsageError

UNTIL_A_CALL_ENDS = float("inf")
MAX_BACKOFF_SECONDS = 30.0

_LATENCY_WEIGHT = 0.2
"""How much the latest reply counts in the latency of a server."""

_SHOWN_ABSENCES = 3


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What each server is asked at most: at one time and per minute; and how long kshot waits for any answer."""

    max_concurrency: int = 64
    rpm: int | None = None
    tpm: int | None = None
    patience: float = 600.0

    def __post_init__(self) -> None:
        """Refuse limits under which nothing could be sent."""
        for name, value in {"max_concurrency": self.max_concurrency, "rpm": self.rpm, "tpm": self.tpm}.items():
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}; it must be 1 or more")


@dataclass(slots=True)
class Absence:
    """A time in which a server was left out, by the clock on the wall; None: it has not come back."""

    reason: str
    since: float = field(default_factory=time.time)
    until: float | None = None


class ServerLoad:
    """The calls that run at one server, and what its limits allow. The time is that of the event loop."""

    def __init__(self, limits: RequestLimits) -> None:
        self.concurrency = ConcurrencyLimit(
            limits.max_concurrency, max_pause_seconds=min(MAX_BACKOFF_SECONDS, limits.patience / 10)
        )
        self.running = 0
        self.answered = 0
        self.latency = 0.0
        """The seconds that a reply takes, the latest ones above all; 0 before the first."""
        self.unreachable = False
        """Whether the last try found no server there."""
        self.absences: list[Absence] = []
        self._requests = MinuteBudget(limits.rpm) if limits.rpm else None
        self._tokens = MinuteBudget(limits.tpm) if limits.tpm else None

    def delay(self, now: float, tokens: float) -> float:
        """Return the seconds until a call may start; 0 means now, infinity when another call ends."""
        if not self.concurrency.may_start(now, self.running):
            resume_at = self.concurrency.resume_at
            return resume_at - now if now < resume_at else UNTIL_A_CALL_ENDS
        budgets = ((self._requests, 1.0), (self._tokens, tokens))
        delays = [budget.delay(now, amount) for budget, amount in budgets if budget is not None]
        return max(delays, default=0.0)

    def start(self, now: float, tokens: float) -> list[float] | None:
        """Start a call; return its entry in the token budget."""
        self.running += 1
        if self._requests is not None:
            self._requests.spend(now, 1)
        return None if self._tokens is None else self._tokens.spend(now, tokens)

    def settle(self, entry: list[float] | None, used: float) -> None:
        """Correct the estimated tokens of a call; a server that reports none leaves the estimate."""
        if self._tokens is not None and entry is not None and used:
            self._tokens.settle(entry, used)

    def succeeded(self, now: float, began: float) -> None:
        """Record a reply to a call that began at ``began``."""
        self.answered += 1
        self.unreachable = False
        taken = now - began
        self.latency = taken if not self.latency else self.latency + _LATENCY_WEIGHT * (taken - self.latency)
        self.concurrency.succeeded(now, began, self.running)
        if self.absences and not self.concurrency.half_open and self.absences[-1].until is None:
            self.absences[-1].until = time.time()

    def failed(
        self,
        now: float,
        began: float,
        jitter: float,
        reason: str,
        *,
        overloaded: bool = False,
        retry_after: float | None = None,
    ) -> None:
        """Record a failure; after some in a row, or if the server asks for it, the server is left out for a while."""
        self.concurrency.failed(now, began, jitter, overloaded=overloaded, retry_after=retry_after)
        is_absent = bool(self.absences) and self.absences[-1].until is None
        if self.concurrency.half_open and not is_absent:
            self.absences.append(Absence(reason))

    def expected_seconds(self, fastest: float) -> float:
        """Return a measure of how long one more call would take here: latency by the calls that run.

        A server without a reply counts as the fastest. One that was left out and may be tried again comes first.
        """
        return 0.0 if self.concurrency.half_open else (self.latency or fastest) * (self.running + 1)


def told_absences(url: str, absences: list[Absence]) -> str:
    """Say when and why a server was left out, and when it came back."""
    shown = "; ".join(map(_told, absences[:_SHOWN_ABSENCES]))
    more = len(absences) - _SHOWN_ABSENCES
    rest = f"; and {more} more times, the last {_told(absences[-1])}" if more > 0 else ""
    return f"{url} was left out {shown}{rest}"


def _told(absence: Absence) -> str:
    back = "it has not answered since" if absence.until is None else f"back at {_clock(absence.until)}"
    return f"at {_clock(absence.since)} ({absence.reason}), {back}"


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
