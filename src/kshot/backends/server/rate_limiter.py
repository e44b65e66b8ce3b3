"""Calls to the servers of one model, within the limits: each waits until a server takes it, and is tried again."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from kshot.backends.server.http_errors import (
    HttpStatusError,
    RequestFailedError,
    RetryableError,
    UnreachableError,
    UnsentError,
)
from kshot.core.errors import BackendError, UsageError
from kshot.core.records import Failed

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

    def __str__(self) -> str:
        back = "it has not answered since" if self.until is None else f"back at {_clock(self.until)}"
        return f"at {_clock(self.since)} ({self.reason}), {back}"


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


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

        A server without a reply counts as the fastest. A server that is due for another try comes first.
        """
        return 0.0 if self.concurrency.half_open else (self.latency or fastest) * (self.running + 1)


def told_absences(url: str, absences: list[Absence]) -> str:
    """Say when and why a server was left out, and when it came back."""
    shown = "; ".join(map(str, absences[:_SHOWN_ABSENCES]))
    more = len(absences) - _SHOWN_ABSENCES
    rest = f"; and {more} more times, the last {absences[-1]}" if more > 0 else ""
    return f"{url} was left out {shown}{rest}"


# ---- calls ----

T = TypeVar("T")

MAX_TRIES = 8
"""A request that fails this often while others are answered is bad itself."""

_MAX_COMPLETE_TRIES = 3
"""The same for a request whose replies are complete, but hold something else than was asked for."""

_MAX_PROBE_TRIES = 2
"""The same for a request that finds out whether the server offers something."""

_MAX_GIVEN_UP = 10
"""If more requests than this are given up and none is answered in between, the server is gone or is no such server."""

_MAX_REFUSED = 10
"""If more replies than this refuse the key, the credit or the address, and none is an answer, the run stops."""

BackoffListener = Callable[[int], None]
backoff_listener: ContextVar[Callable[[], BackoffListener | None]] = ContextVar(
    "backoff_listener", default=lambda: None
)
"""Returns the function that is called with 1 when a call starts to back off, and with -1 when it goes on.

It is a weak reference, because timers keep the contexts in which they were made.
"""


class _Admission(NamedTuple):
    """Which server takes a call, when it was started, and its entry in that server's token budget."""

    server: ServerLoad
    began: float
    entry: list[float] | None


class _Waiter(NamedTuple):
    """A call that waits until a server takes it: any of them, or ``only`` one; it failed at ``avoided``."""

    admission: asyncio.Future[_Admission]
    tokens: float
    only: ServerLoad | None
    avoided: ServerLoad | None


@dataclass(slots=True)
class _Tried:
    """How often a request was tried in vain, since when, and where it failed last."""

    count: int = 0
    first_began: float = 0.0
    failed_at: ServerLoad | None = None

    def failed(self, admission: _Admission, *, counts: bool) -> None:
        """Note that a try failed; it need not be the fault of the request."""
        self.first_began = self.first_began or admission.began
        self.failed_at = admission.server
        self.count += counts


class RateLimiter:
    """Starts calls as the limits of the servers allow, and tries them again. It belongs to one event loop.

    A call goes to the server that will have it done first: the one with the least latency by the calls that run there.
    After failures in a row a server is left out, for longer each time; then one call goes ahead. A call that failed at
    one server goes to another.
    """

    def __init__(self, limits: RequestLimits, where: str, servers: int = 1) -> None:
        self.servers = tuple(ServerLoad(limits) for _ in range(servers))
        self._patience, self._where = limits.patience, where
        self._waiters: deque[_Waiter] = deque()
        self._given_up = 0
        self._refused = 0
        self._unreadable = 0
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._last_answer_at = self._loop.time()

    @property
    def answered(self) -> int:
        """The replies of all servers."""
        return sum(server.answered for server in self.servers)

    async def run(
        self,
        call: Callable[[ServerLoad], Awaitable[T]],
        estimated_tokens: float,
        used_tokens: Callable[[T], float],
        *,
        probing: bool = False,
        again: bool = False,
        only: ServerLoad | None = None,
    ) -> T:
        """Call until the call succeeds, fails for good, or the patience ends; ``used_tokens`` corrects the estimate.

        ``probing``: a server may answer with an error of its own what it does not know, so few tries are enough.
        ``again``: the request was sent before, and goes before those that were not. ``only``: no other server is asked.
        """
        tried = _Tried()
        answered_before: dict[ServerLoad, int] = {}
        while True:
            first = not again and not tried.first_began
            admission = await self._admitted(estimated_tokens, first=first, only=only, avoided=tried.failed_at)
            server = admission.server
            try:
                result = await call(server)
            except RetryableError as exc:
                # A try counts against the request only if the server answered others in between, or it was itself.
                is_own = probing or exc.complete or answered_before.get(server) != server.answered
                tried.failed(admission, counts=is_own and not exc.rate_limited)
                if is_own and not exc.rate_limited:
                    answered_before[server] = server.answered
                if probing and tried.count >= _MAX_PROBE_TRIES:
                    raise RequestFailedError(Failed("unanswered", str(exc))) from None
                self._record_failure(exc, admission)
                self._check_patience(exc, tried)
                pause = 0.0 if exc.retry_after else self._pause_seconds(tried)
            except HttpStatusError as exc:
                tried.failed(admission, counts=True)
                self._check_refusal(exc, admission, tried.count, probing=probing)
                pause = self._pause_seconds(tried)
            except UnreachableError as exc:
                tried.failed(admission, counts=False)
                self._record_unreachable(exc, admission, final=only is not None)
                pause = 0.0
            except RequestFailedError as exc:
                self._record_bad_request(exc, admission)
                raise
            else:
                self._record_answer(admission)
                server.settle(admission.entry, used_tokens(result))
                return result
            finally:
                server.running -= 1
                self._start_waiting()
            if pause:
                await backoff(pause)

    def _pause_seconds(self, tried: _Tried) -> float:
        """Return how long to wait before another try; a first one goes to another server at once, if there is one."""
        if tried.count <= 1 and len(self.servers) > 1:
            return 0.0
        return min(MAX_BACKOFF_SECONDS, 0.25 * 2.0 ** max(tried.count - 1, 0)) * _jitter()

    # ---- waiting until a call may start ----

    async def _admitted(
        self, tokens: float, *, first: bool, only: ServerLoad | None, avoided: ServerLoad | None
    ) -> _Admission:
        admission: asyncio.Future[_Admission] = self._loop.create_future()
        waiter = _Waiter(admission, tokens, only, avoided)
        if not self._waiters and (started := self._started(waiter)) is not None:
            return started
        (self._waiters.append if first else self._waiters.appendleft)(waiter)
        self._start_waiting()
        try:
            return await admission
        except asyncio.CancelledError:
            if admission.done() and not admission.cancelled():  # it was started, and cancelled before it could run
                admission.result().server.running -= 1
                self._start_waiting()
            raise

    def _started(self, waiter: _Waiter) -> _Admission | None:
        """Start a call at the server that will have it done first; None if none may take it now."""
        now = self._loop.time()
        able = [server for server in self._allowed(waiter) if not server.delay(now, waiter.tokens)]
        if not able:
            return None
        if len(able) > 1:
            fastest = min((each.latency for each in self.servers if each.latency), default=1.0)
            able.sort(key=lambda each: each.expected_seconds(fastest))
        return _Admission(able[0], now, able[0].start(now, waiter.tokens))

    def _allowed(self, waiter: _Waiter) -> tuple[ServerLoad, ...]:
        """Return the servers that may take a call: not where it failed, as long as another one works."""
        if waiter.only is not None:
            return (waiter.only,)
        if waiter.avoided is None:
            return self.servers
        working = (each for each in self.servers if each is not waiter.avoided and not each.concurrency.half_open)
        return tuple(working) or self.servers

    def _start_waiting(self) -> None:
        """Start the waiting calls that may start, and set a timer for when the next one may."""
        delay, kept = UNTIL_A_CALL_ENDS, deque[_Waiter]()
        while self._waiters:
            waiter = self._waiters[0]
            if not waiter.admission.done():  # a cancelled one is only removed
                started = self._started(waiter)
                if started is None:
                    now = self._loop.time()
                    delay = min(delay, *(each.delay(now, waiter.tokens) for each in self._allowed(waiter)))
                    if waiter.only is None and waiter.avoided is None:
                        break  # those behind it wait for the same
                    kept.append(waiter)
                else:
                    waiter.admission.set_result(started)
            self._waiters.popleft()
        self._waiters.extendleft(reversed(kept))
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay, self._start_waiting) if delay < UNTIL_A_CALL_ENDS else None

    # ---- what came of a call ----

    def _record_answer(self, admission: _Admission) -> None:
        now = self._loop.time()
        self._given_up = self._refused = self._unreadable = 0
        self._last_answer_at = now
        admission.server.succeeded(now, admission.began)

    def _record_bad_request(self, exc: RequestFailedError, admission: _Admission) -> None:
        """Count the reply to a bad request as an answer: the server works. One that was not sent says nothing of it."""
        if not isinstance(exc, UnsentError):
            self._record_answer(admission)

    def _record_failure(self, exc: RetryableError, admission: _Admission) -> None:
        if exc.complete and len(self.servers) == 1:
            return  # a server that answers is not overloaded; beside others, one that answers nonsense is left out
        now = self._loop.time()
        admission.server.failed(
            now, admission.began, _jitter(), str(exc), overloaded=exc.overloaded, retry_after=exc.retry_after
        )
        soonest = min(server.concurrency.resume_at for server in self.servers) - now
        if exc.retry_after is not None and min(soonest, exc.retry_after) > self._patience:
            raise BackendError(
                f"{exc}; the server asks to wait for {exc.retry_after:.0f} s",
                where=self._where,
                hint="Try again after that.",
            ) from None

    def _record_unreachable(self, exc: UnreachableError, admission: _Admission, *, final: bool) -> None:
        """Leave a server out that is not there. If none is, the run stops; ``final``: no other may be asked."""
        server = admission.server
        server.unreachable = True
        server.failed(self._loop.time(), admission.began, _jitter(), exc.what)
        if final or all(each.unreachable for each in self.servers):
            raise exc from None

    def _check_refusal(self, exc: HttpStatusError, admission: _Admission, tries: int, *, probing: bool) -> None:
        """Stop the run at a status that all requests get; one among answers may be a whim of the server.

        Beside other servers, one that answered and now refuses is left out.
        """
        self._refused += 1
        if probing or not admission.server.answered or self._refused > _MAX_REFUSED:
            raise exc from None
        if len(self.servers) > 1:
            admission.server.failed(self._loop.time(), admission.began, _jitter(), exc.what)
        if tries >= _MAX_COMPLETE_TRIES:
            raise RequestFailedError(Failed(f"http_{exc.status}", exc.what, retryable=True)) from None

    def _check_patience(self, exc: RetryableError, tried: _Tried) -> None:
        """Give the request up, or stop the run, if this has gone on for too long."""
        now, first_began = self._loop.time(), tried.first_began
        if self._given_up or now - max(first_began, self._last_answer_at) > self._patience:
            self._given_up += 1
            if not self.answered or self._given_up > _MAX_GIVEN_UP:
                raise BackendError(
                    f"no answer for {now - self._last_answer_at:.0f} s ({exc})",
                    where=self._where,
                    hint="--patience sets how long kshot tries.",
                ) from None
        most = _MAX_COMPLETE_TRIES if exc.complete else MAX_TRIES
        if self._given_up or now - first_began > self._patience or tried.count >= most:
            self._unreadable += exc.complete
            if self._unreadable > _MAX_GIVEN_UP:
                hint = "Check --base-url and --model-type: no reply in between could be read."
                raise BackendError(str(exc), where=self._where, hint=hint) from None
            message = f"{exc} (tried for {now - first_began:.0f} s)"
            raise RequestFailedError(
                Failed("bad_reply" if exc.complete else "unanswered", message, retryable=True)
            ) from None


async def backoff(seconds: float) -> None:
    """Wait before another try."""
    notify = backoff_listener.get()() or (lambda _: None)
    notify(1)
    try:
        await asyncio.sleep(seconds)
    finally:
        notify(-1)


def _jitter() -> float:
    return random.uniform(0.5, 1.5)  # noqa: S311 - it spreads retries and protects nothing
