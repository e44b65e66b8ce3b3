"""The workers that answer the requests of one queue through a server."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from weakref import WeakMethod

from kshot.backends.server.event_loop import EventLoopHandle
from kshot.backends.server.rate_limiter import backoff_listener
from kshot.core.errors import BackendError
from kshot.core.protocols import RequestQueue
from kshot.core.records import Request, Response

_BATCH_SIZE = 32
"""Requests taken from the queue at once: taking them renders their prompts, and the server should not wait for all."""

_NOTIFY_SECONDS = 0.002
"""How long results may wait for others, so that the thread that asks is woken once for all of them."""

_RESULTS_PER_PAUSE, _PAUSE_SECONDS = 4, 0.00002
"""How often and how long the thread that asks pauses, so that the event loop need not wait for the interpreter."""


class WorkerPool:
    """Each worker sends one request at a time; at most ``max_workers`` run, in the event loop.

    While one worker backs off before another try, an additional one works in its place. As many requests as workers
    are taken in advance: the next one is sent before the last answer is used.
    """

    def __init__(
        self,
        loop: EventLoopHandle,
        respond: Callable[[Request], Coroutine[Any, Any, Response]],
        max_workers: int,
        where: str = "",
    ) -> None:
        """Take the loop, what answers a request there, the number of workers, and how messages name the server."""
        self._loop, self._respond, self._max_workers, self._where = loop, respond, max_workers, where
        self._notify: Callable[[], None] = lambda: None
        self._notify_scheduled = False
        self._tasks: set[asyncio.Task[Any]] = set()
        # Both threads use these two; appending to a deque and taking from it are atomic.
        self._pending: deque[Request] = deque()
        self._results: deque[tuple[Request, Response]] = deque()
        self._taken = 0  # requests whose results are not yet yielded
        self._active = 0  # workers that do not back off
        self._closed = False
        self._closings = 0
        self._error: BaseException | None = None

    # ---- in the thread that asks ----

    def serve(self, queue: RequestQueue) -> Iterator[tuple[Request, Response] | None]:
        """Answer the requests of a queue, and yield results as they come; earlier results come before an error."""
        self._notify = queue.notify
        self._closings = self._loop.closings
        try:
            while True:
                self._fetch(queue)
                if self._results:
                    self._taken -= 1
                    yield self._results.popleft()
                    if not self._taken % _RESULTS_PER_PAUSE:
                        time.sleep(_PAUSE_SECONDS)
                elif self._error is not None:
                    raise self._error
                elif self._taken and self._loop.closings > self._closings:
                    raise BackendError("it was closed while requests were under way", where=self._where)
                elif self._taken or queue.more_expected:
                    yield None
                else:
                    return
        finally:
            self._closed = True
            if self._taken:
                self._loop.cancel(self._tasks)

    def _fetch(self, queue: RequestQueue) -> None:
        """Take requests from the queue until enough are pending, or until there is something else to do."""
        while len(self._pending) < self._max_workers and self._error is None:
            requests = queue.take(_BATCH_SIZE)
            if not requests:
                return
            self._taken += len(requests)
            self._pending.extend(requests)
            self._loop.call_soon(self._start_workers)
            if self._results:
                return

    # ---- in the event loop ----

    def _start_workers(self) -> None:
        if self._loop.closings > self._closings:
            return
        for _ in range(min(self._max_workers - self._active, len(self._pending))):
            self._active += 1
            self._loop.create_task(self._work(), self._tasks)

    async def _work(self) -> None:
        """Answer one request after another, until none is pending or too many workers are active."""
        backoff_listener.set(WeakMethod(self._on_backoff))
        try:
            while self._pending and not self._closed and self._error is None and self._active <= self._max_workers:
                await self._answer(self._pending.popleft())
                self._schedule_notify()
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

    def _schedule_notify(self) -> None:
        """Wake the thread that asks, soon: while it uses results, it competes with the loop for the interpreter."""
        if not self._notify_scheduled:
            self._notify_scheduled = True
            asyncio.get_running_loop().call_later(_NOTIFY_SECONDS, self._notify_now)

    def _notify_now(self) -> None:
        self._notify_scheduled = False
        self._notify()
