"""What one server is asked at the moment: its limits, how fast it answers, and when it was left out."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from kshot.core.errors import UsageError

# ---- limits; these two classes are pure: the time is an argument ----

MINUTE_SECONDS = 60.0

_INITIAL_CONCURRENCY = 100
"""Requests at one time in the beginning, if the user allows this many."""
_RESTART_CONCURRENCY = 8
"""Requests at one time after a pause; half of the maximum, if that is more."""
_LATENCY_SLACK_SECONDS = 0.1
"""A rise in latency up to this proves nothing: the client's own queue can cause it."""
_FAILURES_BEFORE_PAUSE = 3
"""This many failures in a row are no accident: all requests pause."""


class MinuteBudget:
    """At most ``limit`` units in any 60 seconds.

    The budget remembers what was spent for one minute. An amount above the whole limit may be spent when nothing else
    is remembered; otherwise it could never be spent.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._spent: deque[list[float]] = deque()
        self._sum = 0.0

    def delay(self, now: float, amount: float) -> float:
        """Return the seconds until this amount may be spent; 0 means now."""
        while self._spent and now - self._spent[0][0] >= MINUTE_SECONDS:
            self._sum -= self._spent.popleft()[1]
        if not self._spent:
            self._sum = 0.0  # rounding errors must not add up
        over = self._sum + amount - self._limit
        if over <= 0 or not self._spent:
            return 0.0
        for at, spent in self._spent:
            over -= spent
            if over <= 0:
                return at + MINUTE_SECONDS - now
        return self._spent[-1][0] + MINUTE_SECONDS - now

    def spend(self, now: float, amount: float) -> list[float]:
        """Remember an amount, and return its entry, which ``settle`` can correct later."""
        entry = [now, amount]
        self._spent.append(entry)
        self._sum += amount
        return entry

    def settle(self, entry: list[float], actual: float) -> None:
        """Replace an estimated amount by the actual one, if its entry is still remembered."""
        if self._spent and entry[0] >= self._spent[0][0]:
            self._sum += actual - entry[1]
            entry[1] = actual


@dataclass(slots=True)
class ConcurrencyLimit:
    """How many requests may run at one time, adapted to the server.

    The limit doubles while the latency stays low, and then grows slowly. It falls when the server is overloaded. After
    a pause the limit is half open: one request goes alone, and its success lets the others follow.
    """

    maximum: int
    max_pause_seconds: float = 30.0
    """The longest pause, unless the server itself asks for a longer one."""
    current: float = 0.0
    resume_at: float = 0.0
    half_open: bool = False
    _slow_growth_from: float = 0.0
    _failures_in_a_row: int = 0
    _pauses_in_a_row: int = 0
    _reduced_at: float = -1.0
    _paused_at: float = -1.0
    _best_latency: float = 0.0
    _latencies: list[float] = field(default_factory=list)
    _round_size: int = 0
    _latency_is_low: bool = True

    def __post_init__(self) -> None:
        """Start with a number that most servers accept; those that do not will say so at once."""
        self.current = float(min(self.maximum, _INITIAL_CONCURRENCY))
        self._slow_growth_from = float(self.maximum)
        self._round_size = int(self.current)

    def may_start(self, now: float, running: int) -> bool:
        """Whether one more request may start."""
        return now >= self.resume_at and running < (1 if self.half_open else int(self.current))

    def succeeded(self, now: float, began: float, running: int) -> None:
        """Record the success of a request that began at ``began``; ``running`` includes this request."""
        self._failures_in_a_row = self._pauses_in_a_row = 0
        if self.half_open:
            if began >= self.resume_at:
                self.half_open = False
                self.current = min(self.current, float(max(_RESTART_CONCURRENCY, self.maximum // 2)))
            return
        self._measure(now - began)
        if not self._latency_is_low or running < int(self.current):  # a limit that is not reached proves nothing
            return
        fast = self.current < self._slow_growth_from
        self.current = min(self.current + (1.0 if fast else max(1.0, self.maximum / 20) / self.current), self.maximum)

    def _measure(self, latency: float) -> None:
        """Compare the mean latency of each round with that of the best round, which slowly loses its weight."""
        self._latencies.append(latency)
        if len(self._latencies) < self._round_size:
            return
        mean = sum(self._latencies) / len(self._latencies)
        self._best_latency = mean if not self._best_latency else min(self._best_latency * 1.02, mean)
        self._latency_is_low = mean <= 2 * self._best_latency + _LATENCY_SLACK_SECONDS
        if not self._latency_is_low:
            self._slow_growth_from = self.current
        self._latencies.clear()
        self._round_size = int(self.current)

    def failed(
        self, now: float, began: float, jitter: float, *, overloaded: bool, retry_after: float | None = None
    ) -> None:
        """Record the failure of a request that began at ``began``.

        ``overloaded``: the server says that it gets too many requests. ``retry_after`` is the server's Retry-After; it
        holds for all requests. ``jitter`` is a random factor for the pause.
        """
        if retry_after is not None:
            self.resume_at = max(self.resume_at, now + retry_after)
            self.half_open = True
        if began > self._paused_at:  # a request that began before the pause tells nothing new
            self._failures_in_a_row += 1
            if self._failures_in_a_row >= _FAILURES_BEFORE_PAUSE and retry_after is None:
                pause = min(self.max_pause_seconds, 0.5 * 2**self._pauses_in_a_row) * jitter
                self.resume_at = max(self.resume_at, now + pause)
                self._paused_at = now
                self._pauses_in_a_row += 1
                self.half_open = True
        if (overloaded or self.half_open) and began > self._reduced_at:
            self.current = max(1.0, self.current * 0.7)
            self._slow_growth_from = self.current
            self._reduced_at = now


# ---- one server ----

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
