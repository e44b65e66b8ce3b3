"""How fast a server may be asked: requests and tokens a minute, and how many at one time. Pure: time is an argument."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

MINUTE = 60.0

_START = 100
"""Requests at one time to begin with, if so many are allowed."""
_RESTART = 8
"""The same after a pause, or half of what is allowed."""
_SLACK = 0.1
"""Seconds of latency that prove nothing: a client's own queue makes as much."""
_STREAK = 3
"""So many failures in a row are no accident: everything pauses."""


class Allowance:
    """At most ``limit`` units in any 60 seconds, and no waiting beyond that.

    What was spent is remembered for a minute. An amount above the whole limit goes when nothing else is remembered: it
    could never go otherwise.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._spent: deque[list[float]] = deque()
        self._sum = 0.0

    def wait(self, now: float, amount: float) -> float:
        """Seconds until this amount may be spent; 0 means now."""
        self._forget(now)
        over = self._sum + amount - self._limit
        if over <= 0 or not self._spent:
            return 0.0
        for at, spent in self._spent:
            over -= spent
            if over <= 0:
                return at + MINUTE - now
        return self._spent[-1][0] + MINUTE - now

    def spend(self, now: float, amount: float) -> list[float]:
        """Remember an amount; the entry returned can be settled later."""
        entry = [now, amount]
        self._spent.append(entry)
        self._sum += amount
        return entry

    def settle(self, entry: list[float], actual: float) -> None:
        """Replace an estimate by what it really was, as long as it is remembered."""
        if self._spent and entry[0] >= self._spent[0][0]:
            self._sum += actual - entry[1]
            entry[1] = actual

    def _forget(self, now: float) -> None:
        while self._spent and now - self._spent[0][0] >= MINUTE:
            self._sum -= self._spent.popleft()[1]
        if not self._spent:
            self._sum = 0.0  # no rounding errors are carried on


@dataclass(slots=True)
class Pace:
    """How many requests run at one time: doubles while latency holds, then creeps; gives way when pushed back.

    After a pause one request goes ahead alone; its answer opens the way for the others.
    """

    most: int
    longest: float = 30.0
    """The longest pause that is not the server's own wish."""
    limit: float = 0.0
    resume_at: float = 0.0
    probing: bool = False
    _threshold: float = 0.0
    _streak: int = 0
    _level: int = 0
    _yielded_at: float = -1.0
    _paused_at: float = -1.0
    _best: float = 0.0
    _latencies: list[float] = field(default_factory=list)
    _size: int = 0
    _holds: bool = True

    def __post_init__(self) -> None:
        """Begin with what any server takes, or pushes back at once; the most is the goal."""
        self.limit = float(min(self.most, _START))
        self._threshold = float(self.most)
        self._size = int(self.limit)

    def may_start(self, now: float, running: int) -> bool:
        """Whether one more may run."""
        return now >= self.resume_at and running < (1 if self.probing else int(self.limit))

    def succeeded(self, now: float, began: float, running: int) -> None:
        """Take note of an answer to what began then; ``running`` counts it too."""
        self._streak = self._level = 0
        if self.probing:
            if began >= self.resume_at:
                self.probing = False
                self.limit = min(self.limit, float(max(_RESTART, self.most // 2)))
            return
        self._measure(now - began)
        if not self._holds or running < int(self.limit):  # a limit that nobody reaches proves nothing
            return
        quick = self.limit < self._threshold
        self.limit = min(self.limit + (1.0 if quick else max(1.0, self.most / 20) / self.limit), self.most)

    def _measure(self, latency: float) -> None:
        """Compare each round's mean latency with the best round so far, which slowly fades."""
        self._latencies.append(latency)
        if len(self._latencies) < self._size:
            return
        mean = sum(self._latencies) / len(self._latencies)
        self._best = mean if not self._best else min(self._best * 1.02, mean)
        self._holds = mean <= 2 * self._best + _SLACK
        if not self._holds:
            self._threshold = self.limit  # from here on it creeps
        self._latencies.clear()
        self._size = int(self.limit)

    def failed(self, now: float, began: float, jitter: float, *, crowded: bool, after: float | None = None) -> None:
        """Take note of a failure of a request that began then. ``crowded``: the server said that it is too much.

        ``after`` is the server's Retry-After: it holds for everyone. ``jitter`` is a random factor.
        """
        if after is not None:
            self.resume_at = max(self.resume_at, now + after)
            self.probing = True
        if began > self._paused_at:  # what began earlier says what is known already
            self._streak += 1
            if self._streak >= _STREAK and after is None:
                self.resume_at = max(self.resume_at, now + min(self.longest, 0.5 * 2**self._level) * jitter)
                self._paused_at = now
                self._level += 1
                self.probing = True
        if (crowded or self.probing) and began > self._yielded_at:
            self._yield(now)

    def _yield(self, now: float) -> None:
        self.limit = max(1.0, self.limit * 0.7)
        self._threshold = self.limit
        self._yielded_at = now
