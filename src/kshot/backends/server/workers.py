"""One serving of a model behind a server: what is to be done, so many at work on it, and the way back."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from weakref import WeakMethod

from kshot.backends.server.event_loop import LATE, OFTEN, Link
from kshot.backends.server.rate_limiter import rests
from kshot.core.protocols import RequestQueue
from kshot.core.records import Request, Response

_HELPING = 32
"""Requests taken at once: taking them writes their prompts, and the wire should not wait for all of those."""
_AHEAD = 4
"""Requests made for each that may run, where there is time: the next one goes out before the last answer is used."""


class Crew:
    """At most so many at work in the loop, each on one request after the other; where one rests, another works."""

    def __init__(self, link: Link, answer: Callable[[Request], Coroutine[Any, Any, Response]], most: int) -> None:
        self._link, self._answer, self._most = link, answer, most
        self._tasks: set[asyncio.Task[Any]] = set()
        self._todo: deque[Request] = deque()
        self._ready: deque[tuple[Request, Response]] = deque()
        self._held = self._working = 0
        self._over = False
        self._error: BaseException | None = None

    def pairs(self, waiting: RequestQueue) -> Iterator[tuple[Request, Response]]:
        """Keep as many requests under way as may be, and yield what comes back; an error after what came before it."""
        with self._link.kept():
            try:
                while self._fill(waiting):
                    self._link.wait(self._moved)
                    yield from self._answered()
                    if self._error is not None:
                        raise self._error
            finally:
                self._over = True
                if self._held:
                    self._link.soon(self._cancel)
                    self._link.turn()

    def _answered(self) -> Iterator[tuple[Request, Response]]:
        """What has come back, as long as there is something to do meanwhile."""
        turned = time.perf_counter()
        while self._ready:
            self._held -= 1
            yield self._ready.popleft()
            if time.perf_counter() - turned > OFTEN:
                self._link.turn()
                turned = time.perf_counter()
                if not self._todo and self._error is None:
                    return

    def _fill(self, waiting: RequestQueue) -> bool:
        """Take what is to be done next, as long as no answer waits for it; say whether anything is under way."""
        began = time.perf_counter()
        while self._held < _AHEAD * self._most:
            if self._ready and (len(self._todo) >= self._most or time.perf_counter() - began > LATE):
                break
            taken = waiting.take(min(_HELPING, _AHEAD * self._most - self._held))
            if not taken:
                break
            self._held += len(taken)
            self._todo.extend(taken)
            self._link.soon(self._start)
            self._link.turn()
        return self._held > 0

    def _moved(self) -> bool:
        return bool(self._ready) or self._error is not None

    # ---- in the loop ----

    def _start(self) -> None:
        for _ in range(min(self._most - self._working, len(self._todo))):
            self._working += 1
            self._link.begin(self._work(), self._tasks)

    async def _work(self) -> None:
        """Answer one request after the other, as long as there are any and no more are at it than may be."""
        rests.set(WeakMethod(self._rest))
        try:
            while self._todo and not self._over and self._error is None and self._working <= self._most:
                await self._one(self._todo.popleft())
                self._link.word()
        finally:
            self._working -= 1

    def _rest(self, change: int) -> None:
        """Somebody waits to try again, or goes on: another works in its place."""
        self._working -= change
        self._start()

    async def _one(self, request: Request) -> None:
        try:
            response = await self._answer(request)
        except asyncio.CancelledError:
            raise
        except BaseException as exc:  # noqa: BLE001 - raised again where it was asked
            self._error = self._error or exc
            self._cancel()
        else:
            self._ready.append((request, response))

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
