"""The way to a server: one call at a time through limits and pauses, tried again where that can help."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from kshot.backends.server.http_errors import KEPT, Refused, Transient
from kshot.backends.server.limits import Allowance, Pace
from kshot.core.errors import BackendError
from kshot.core.records import Failed

T = TypeVar("T")

TRIES = 8
"""A request that fails so often while others are answered is at fault itself."""

_PROBES = 2
"""The same for a question whether the server can do something at all."""

_GIVEN_UP = 10
"""So many requests given up with nothing answered in between: the server is gone, not the requests bad."""

_CAP = 30.0
_SOMETIME = float("inf")

Teller = Callable[[int], None]
rests: ContextVar[Callable[[], Teller | None]] = ContextVar("rests", default=lambda: None)
"""A weak reference to whom to tell that a call waits to be tried again (1), or goes on (-1): timers keep contexts."""

_Turn = tuple[float, "list[float] | None"]
"""When a call was let go, and what it spends of the tokens."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the user allows: calls at one time, a minute, tokens a minute; seconds of patience with a server."""

    most: int = 64
    rpm: int | None = None
    tpm: int | None = None
    patience: float = 600.0


class Gate:
    """Lets calls through as the limits allow. It lives in one event loop."""

    def __init__(self, limits: Limits, where: str) -> None:
        self.pace = Pace(limits.most, longest=min(_CAP, limits.patience / 10))
        self.answered = 0
        self._patience, self._where = limits.patience, where
        self._calls = Allowance(limits.rpm) if limits.rpm else None
        self._tokens = Allowance(limits.tpm) if limits.tpm else None
        self._waiters: deque[tuple[asyncio.Future[_Turn], float]] = deque()
        self._running = 0
        self._given_up = 0
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._good_at = self._loop.time()

    async def through(
        self,
        call: Callable[[], Awaitable[T]],
        tokens: float,
        used: Callable[[T], float],
        *,
        probing: bool = False,
        again: bool = False,
    ) -> T:
        """Call until it succeeds, is refused, or patience ends. ``tokens`` is an estimate, ``used`` the truth.

        ``probing``: a fault of the server may be its answer to what it does not know, so few tries are enough.
        ``again``: it was asked before, and goes before those that were not.
        """
        tries, first, since = 0, 0.0, -1
        while True:
            began, entry = await self._enter(tokens, again=again or bool(first))
            try:
                found = await call()
            except Transient as exc:
                first = first or began
                if not exc.throttled and (probing or since != self.answered):
                    tries, since = tries + 1, self.answered  # only with others answered in between is it its own fault
                if probing and tries >= _PROBES:
                    raise Refused(Failed("unanswered", str(exc))) from None
                self._failed(exc, began)
                self._out_of_patience(exc, first, tries)
                pause = 0.0 if exc.after else min(_CAP, 0.25 * 2 ** max(tries - 1, 0)) * _jitter()
            except Refused:
                self._succeeded(began)  # the server is well; only this request is not
                raise
            else:
                self._succeeded(began)
                if entry is not None and self._tokens is not None:
                    self._tokens.settle(entry, used(found))
                return found
            finally:
                self._running -= 1
                self._wake()
            if pause:
                await rest(pause)

    # ---- waiting for one's turn ----

    async def _enter(self, tokens: float, *, again: bool) -> _Turn:
        if not self._waiters and not self._hindered(tokens):
            return self._let_go(tokens)
        turn: asyncio.Future[_Turn] = self._loop.create_future()
        (self._waiters.appendleft if again else self._waiters.append)((turn, tokens))
        self._wake()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was let go, and will not go
                self._running -= 1
                self._wake()
            raise

    def _let_go(self, tokens: float) -> _Turn:
        now = self._loop.time()
        self._running += 1
        if self._calls is not None:
            self._calls.spend(now, 1)
        return now, None if self._tokens is None else self._tokens.spend(now, tokens)

    def _hindered(self, tokens: float) -> float:
        """Seconds until a call may start: 0 is now; infinity, when another one ends."""
        now = self._loop.time()
        if not self.pace.may_start(now, self._running):
            return self.pace.resume_at - now if now < self.pace.resume_at else _SOMETIME
        waits = [each.wait(now, n) for each, n in ((self._calls, 1.0), (self._tokens, tokens)) if each is not None]
        return max(waits, default=0.0)

    def _wake(self) -> None:
        """Let go whoever may; come back when time alone will have changed something."""
        while self._waiters:
            turn, tokens = self._waiters[0]
            if not turn.done():  # else it was cancelled
                wait = self._hindered(tokens)
                if wait:
                    if self._timer is not None:
                        self._timer.cancel()
                    self._timer = self._loop.call_later(wait, self._wake) if wait < _SOMETIME else None
                    return
                turn.set_result(self._let_go(tokens))
            self._waiters.popleft()

    # ---- what came of it ----

    def _succeeded(self, began: float) -> None:
        now = self._loop.time()
        self.answered += 1
        self._given_up = 0
        self._good_at = now
        self.pace.succeeded(now, began, self._running)

    def _failed(self, exc: Transient, began: float) -> None:
        now = self._loop.time()
        if exc.after is not None and exc.after > self._patience:
            raise BackendError(
                f"{exc}; it asks to wait for {exc.after:.0f} s", where=self._where, hint=f"Come back then. {KEPT}"
            ) from None
        self.pace.failed(now, began, _jitter(), crowded=exc.crowded, after=exc.after)

    def _out_of_patience(self, exc: Transient, first: float, tries: int) -> None:
        now = self._loop.time()
        if self._given_up or now - max(first, self._good_at) > self._patience:
            self._given_up += 1
            if not self.answered or self._given_up > _GIVEN_UP:
                what = f"no answer for {now - self._good_at:.0f} s ({exc})"
                raise BackendError(what, where=self._where, hint=f"{KEPT} --patience says how long to try.") from None
        if self._given_up or now - first > self._patience or tries >= TRIES:
            raise Refused(Failed("unanswered", f"{exc} (tried for {now - first:.0f} s)", retryable=True)) from None


async def rest(seconds: float) -> None:
    """Wait before another try."""
    told = rests.get()() or (lambda _: None)
    told(1)
    try:
        await asyncio.sleep(seconds)
    finally:
        told(-1)


def _jitter() -> float:
    return random.uniform(0.5, 1.5)  # noqa: S311 - it spreads retries, it hides nothing
