"""The workers that answer the requests of one queue through a server."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from weakref import WeakMethod

from kshot.backends.server.event_loop import IDLE_SECONDS, RUN_INTERVAL_SECONDS, EventLoopHandle
from kshot.backends.server.rate_limiter import backoff_listener
from kshot.core.protocols import RequestQueue
from kshot.core.records import Request, Response

_BATCH_SIZE = 32
"""Requests taken from the queue at once: taking them renders their prompts, and the server should not wait for all."""
_PREFETCH_FACTOR = 4
"""Requests taken in advance for each worker, if there is time: the next one is sent before the last answer is used."""


class WorkerPool:
    """Each worker sends one request at a time; at most ``max_workers`` run.

    While one worker backs off before another try, an additional one works in its place.
    """

    def __init__(
        self, loop: EventLoopHandle, respond: Callable[[Request], Coroutine[Any, Any, Response]], max_workers: int
    ) -> None:
        self._loop, self._respond, self._max_workers = loop, respond, max_workers
        self._tasks: set[asyncio.Task[Any]] = set()
        self._pending: deque[Request] = deque()
        self._results: deque[tuple[Request, Response]] = deque()
        self._taken = self._active = 0  # requests whose results are not yet yielded; workers that do not back off
        self._closed = False
        self._error: BaseException | None = None

    def serve(self, queue: RequestQueue) -> Iterator[tuple[Request, Response]]:
        """Answer the requests of a queue, and yield results as they come; earlier results come before an error."""
        with self._loop.background():
            try:
                while self._fetch(queue):
                    self._loop.run_until(self._has_news)
                    yield from self._take_results()
                    if self._error is not None:
                        raise self._error
            finally:
                self._closed = True
                if self._taken:
                    self._loop.call_soon(self._cancel_tasks)
                    self._loop.run_ready()

    def _take_results(self) -> Iterator[tuple[Request, Response]]:
        """Yield the results so far, as long as requests are pending meanwhile."""
        last_run = time.perf_counter()
        while self._results:
            self._taken -= 1
            yield self._results.popleft()
            if time.perf_counter() - last_run > RUN_INTERVAL_SECONDS:
                self._loop.run_ready()
                last_run = time.perf_counter()
                if not self._pending and self._error is None:
                    return

    def _fetch(self, queue: RequestQueue) -> bool:
        """Take requests from the queue, unless results wait to be used; return whether any request is under way."""
        began = time.perf_counter()
        while self._taken < _PREFETCH_FACTOR * self._max_workers:
            enough = len(self._pending) >= self._max_workers
            if self._results and (enough or time.perf_counter() - began > IDLE_SECONDS):
                break
            requests = queue.take(min(_BATCH_SIZE, _PREFETCH_FACTOR * self._max_workers - self._taken))
            if not requests:
                break
            self._taken += len(requests)
            self._pending.extend(requests)
            self._loop.call_soon(self._start_workers)
            self._loop.run_ready()
        return self._taken > 0

    def _has_news(self) -> bool:
        return bool(self._results) or self._error is not None

    # ---- in the event loop ----

    def _start_workers(self) -> None:
        for _ in range(min(self._max_workers - self._active, len(self._pending))):
            self._active += 1
            self._loop.create_task(self._work(), self._tasks)

    async def _work(self) -> None:
        """Answer one request after another, until none is pending or too many workers are active."""
        backoff_listener.set(WeakMethod(self._on_backoff))
        try:
            while self._pending and not self._closed and self._error is None and self._active <= self._max_workers:
                await self._answer(self._pending.popleft())
                self._loop.notify()
        finally:
            self._active -= 1

    def _on_backoff(self, change: int) -> None:
        """Count the workers that back off (1) or go on (-1), and start others in their place."""
        self._active -= change
        self._start_workers()

    async def _answer(self, request: Request) -> None:
        try:
            response = await self._respond(request)
        except asyncio.CancelledError:
            raise
        except BaseException as exc:  # noqa: BLE001 - ``serve`` raises it in the thread that asks
            self._error = self._error or exc
            self._cancel_tasks()
        else:
            self._results.append((request, response))

    def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
