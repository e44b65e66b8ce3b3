"""Limits on how fast a server is asked: requests and tokens per minute, and requests at one time.

The classes are pure: the time is an argument.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

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
        self._forget_expired(now)
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

    def _forget_expired(self, now: float) -> None:
        while self._spent and now - self._spent[0][0] >= MINUTE_SECONDS:
            self._sum -= self._spent.popleft()[1]
        if not self._spent:
            self._sum = 0.0  # rounding errors must not add up


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
            self._reduce(now)

    def _reduce(self, now: float) -> None:
        self.current = max(1.0, self.current * 0.7)
        self._slow_growth_from = self.current
        self._reduced_at = now
