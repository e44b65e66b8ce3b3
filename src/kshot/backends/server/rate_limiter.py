"""Calls to the servers of one model, within the limits: each waits until one of them takes it, and is tried again."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from kshot.backends.server.http_errors import (
    HttpStatusError,
    RequestFailedError,
    RetryableError,
    UnreachableError,
    UnsentError,
)
from kshot.backends.server.server_load import MAX_BACKOFF_SECONDS, UNTIL_A_CALL_ENDS, RequestLimits, ServerLoad
from kshot.core.errors import BackendError
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
