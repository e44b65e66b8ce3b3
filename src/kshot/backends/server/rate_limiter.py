"""Calls to one server, within the limits: each waits until it may start, and is tried again after a passing error."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from kshot.backends.server.http_errors import HttpStatusError, RequestFailedError, RetryableError, UnsentError
from kshot.backends.server.limits import ConcurrencyLimit, MinuteBudget
from kshot.core.errors import BackendError, UsageError
from kshot.core.records import Failed

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

_MAX_BACKOFF_SECONDS = 30.0
_UNTIL_A_CALL_ENDS = float("inf")

BackoffListener = Callable[[int], None]
backoff_listener: ContextVar[Callable[[], BackoffListener | None]] = ContextVar(
    "backoff_listener", default=lambda: None
)
"""Returns the function that is called with 1 when a call starts to back off, and with -1 when it goes on.

It is a weak reference, because timers keep the contexts in which they were made.
"""

_Admission = tuple[float, "list[float] | None"]
"""When a call was started, and its entry in the token budget."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What the user allows: requests at one time, requests and tokens per minute, seconds without any answer."""

    max_concurrency: int = 64
    rpm: int | None = None
    tpm: int | None = None
    patience: float = 600.0

    def __post_init__(self) -> None:
        """Refuse limits under which nothing could be sent."""
        for name, value in {"max_concurrency": self.max_concurrency, "rpm": self.rpm, "tpm": self.tpm}.items():
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}; it must be 1 or more")


class RateLimiter:
    """Starts calls as the limits allow, and tries them again. It belongs to one event loop."""

    def __init__(self, limits: RequestLimits, where: str) -> None:
        self.concurrency = ConcurrencyLimit(
            limits.max_concurrency, max_pause_seconds=min(_MAX_BACKOFF_SECONDS, limits.patience / 10)
        )
        self.answered = 0
        self._patience, self._where = limits.patience, where
        self._requests = MinuteBudget(limits.rpm) if limits.rpm else None
        self._tokens = MinuteBudget(limits.tpm) if limits.tpm else None
        self._waiters: deque[tuple[asyncio.Future[_Admission], float]] = deque()
        self._running = 0
        self._given_up = 0
        self._refused = 0
        self._unreadable = 0
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._last_answer_at = self._loop.time()

    async def run(
        self,
        call: Callable[[], Awaitable[T]],
        estimated_tokens: float,
        used_tokens: Callable[[T], float],
        *,
        probing: bool = False,
        again: bool = False,
    ) -> T:
        """Call until the call succeeds, fails for good, or the patience ends; ``used_tokens`` corrects the estimate.

        ``probing``: a server may answer with an error of its own what it does not know, so few tries are enough.
        ``again``: the request was sent before, and goes before those that were not.
        """
        tries, first_began, answered_before = 0, 0.0, -1
        while True:
            began, entry = await self._admitted(estimated_tokens, again=again or bool(first_began))
            try:
                result = await call()
            except RetryableError as exc:
                first_began = first_began or began
                if not exc.rate_limited and (probing or exc.complete or answered_before != self.answered):
                    # A try counts against the request only if others were answered in between, or it was itself.
                    tries, answered_before = tries + 1, self.answered
                if probing and tries >= _MAX_PROBE_TRIES:
                    raise RequestFailedError(Failed("unanswered", str(exc))) from None
                self._record_failure(exc, began)
                self._check_patience(exc, first_began, tries)
                pause = 0.0 if exc.retry_after else _pause_seconds(tries)
            except HttpStatusError as exc:
                first_began, tries = first_began or began, tries + 1
                self._check_refusal(exc, tries, probing=probing)
                pause = _pause_seconds(tries)
            except RequestFailedError as exc:
                self._record_bad_request(exc, began)
                raise
            else:
                self._record_answer(began)
                if entry is not None:
                    self._settle(entry, used_tokens(result))
                return result
            finally:
                self._running -= 1
                self._start_waiting()
            if pause:
                await backoff(pause)

    # ---- waiting until a call may start ----

    async def _admitted(self, tokens: float, *, again: bool) -> _Admission:
        if not self._waiters and not self._delay(tokens):
            return self._start(tokens)
        admission: asyncio.Future[_Admission] = self._loop.create_future()
        (self._waiters.appendleft if again else self._waiters.append)((admission, tokens))
        self._start_waiting()
        try:
            return await admission
        except asyncio.CancelledError:
            if admission.done() and not admission.cancelled():  # it was started, and cancelled before it could run
                self._running -= 1
                self._start_waiting()
            raise

    def _start(self, tokens: float) -> _Admission:
        now = self._loop.time()
        self._running += 1
        if self._requests is not None:
            self._requests.spend(now, 1)
        return now, None if self._tokens is None else self._tokens.spend(now, tokens)

    def _delay(self, tokens: float) -> float:
        """Return the seconds until a call may start; 0 means now, infinity when another call ends."""
        now = self._loop.time()
        if not self.concurrency.may_start(now, self._running):
            resume_at = self.concurrency.resume_at
            return resume_at - now if now < resume_at else _UNTIL_A_CALL_ENDS
        budgets = ((self._requests, 1.0), (self._tokens, tokens))
        delays = [budget.delay(now, amount) for budget, amount in budgets if budget is not None]
        return max(delays, default=0.0)

    def _start_waiting(self) -> None:
        """Start the waiting calls that may start, and set a timer for when the next one may."""
        while self._waiters:
            admission, tokens = self._waiters[0]
            if not admission.done():  # a cancelled one is only removed
                delay = self._delay(tokens)
                if delay:
                    if self._timer is not None:
                        self._timer.cancel()
                    later = delay < _UNTIL_A_CALL_ENDS
                    self._timer = self._loop.call_later(delay, self._start_waiting) if later else None
                    return
                admission.set_result(self._start(tokens))
            self._waiters.popleft()

    # ---- what came of a call ----

    def _record_answer(self, began: float) -> None:
        now = self._loop.time()
        self.answered += 1
        self._given_up = self._refused = self._unreadable = 0
        self._last_answer_at = now
        self.concurrency.succeeded(now, began, self._running)

    def _record_bad_request(self, exc: RequestFailedError, began: float) -> None:
        """Count the reply to a bad request as an answer: the server works. One that was not sent says nothing of it."""
        if not isinstance(exc, UnsentError):
            self._record_answer(began)

    def _settle(self, entry: list[float], used: float) -> None:
        """Correct the estimated tokens of a call; a server that reports none leaves the estimate."""
        if self._tokens is not None and used:
            self._tokens.settle(entry, used)

    def _record_failure(self, exc: RetryableError, began: float) -> None:
        if exc.complete:
            return  # a server that answers is not overloaded
        now = self._loop.time()
        if exc.retry_after is not None and exc.retry_after > self._patience:
            raise BackendError(
                f"{exc}; the server asks to wait for {exc.retry_after:.0f} s",
                where=self._where,
                hint="Try again after that.",
            ) from None
        self.concurrency.failed(now, began, _jitter(), overloaded=exc.overloaded, retry_after=exc.retry_after)

    def _check_refusal(self, exc: HttpStatusError, tries: int, *, probing: bool) -> None:
        """Stop the run at a status that all requests get; one among answers may be a whim of the server."""
        self._refused += 1
        if probing or not self.answered or self._refused > _MAX_REFUSED:
            raise exc from None
        if tries >= _MAX_COMPLETE_TRIES:
            raise RequestFailedError(Failed(f"http_{exc.status}", exc.what, retryable=True)) from None

    def _check_patience(self, exc: RetryableError, first_began: float, tries: int) -> None:
        """Give the request up, or stop the run, if this has gone on for too long."""
        now = self._loop.time()
        if self._given_up or now - max(first_began, self._last_answer_at) > self._patience:
            self._given_up += 1
            if not self.answered or self._given_up > _MAX_GIVEN_UP:
                raise BackendError(
                    f"no answer for {now - self._last_answer_at:.0f} s ({exc})",
                    where=self._where,
                    hint="--patience sets how long kshot tries.",
                ) from None
        if self._given_up or now - first_began > self._patience or tries >= _max_tries(exc):
            self._unreadable += exc.complete
            if self._unreadable > _MAX_GIVEN_UP:
                hint = "Check --base-url and --model-type: no reply in between could be read."
                raise BackendError(str(exc), where=self._where, hint=hint) from None
            message = f"{exc} (tried for {now - first_began:.0f} s)"
            raise RequestFailedError(Failed(_kind(exc), message, retryable=True)) from None


def _max_tries(exc: RetryableError) -> int:
    return _MAX_COMPLETE_TRIES if exc.complete else MAX_TRIES


def _kind(exc: RetryableError) -> str:
    return "bad_reply" if exc.complete else "unanswered"


async def backoff(seconds: float) -> None:
    """Wait before another try."""
    notify = backoff_listener.get()() or (lambda _: None)
    notify(1)
    try:
        await asyncio.sleep(seconds)
    finally:
        notify(-1)


def _pause_seconds(tries: int) -> float:
    return min(_MAX_BACKOFF_SECONDS, 0.25 * 2.0 ** max(tries - 1, 0)) * _jitter()


def _jitter() -> float:
    return random.uniform(0.5, 1.5)  # noqa: S311 - it spreads retries and protects nothing
