"""The event loop in which servers are asked. One daemon thread runs it, and all servers of the process share it."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import (
    Future,
    TimeoutError as FutureTimeoutError,  # in Python 3.10 not the built-in one
)
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakMethod

from kshot.backends.server.rate_limiter import backoff_listener
from kshot.core.errors import BackendError
from kshot.core.protocols import RequestQueue
from kshot.core.records import Request, Response

T = TypeVar("T")

_CANCEL_SECONDS = 10.0
"""How long the end of a stream waits until its requests are broken off; the loop breaks them off in any case."""

_STOP_SECONDS = 10.0
"""How long closing the last server waits until the thread has ended."""

_EXIT_SECONDS = 2.0
"""How long the end of the process waits until the connections of one server are closed."""


class _LoopThread:
    """A daemon thread that runs an event loop as long as a handle uses it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.process = os.getpid()
        self.users = 0
        self.stopped = False
        self._thread = threading.Thread(target=self._run, name="kshot-servers", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.loop.run_forever()
        self.loop.run_until_complete(_cancel(asyncio.all_tasks(self.loop)))
        self.loop.run_until_complete(self.loop.shutdown_default_executor())  # its threads looked up host names
        self.loop.close()

    @property
    def is_current(self) -> bool:
        """Whether the calling code runs in this thread."""
        return threading.current_thread() is self._thread

    def finish(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Start the last work of a user. The loop stops after the last work of the last user."""
        return asyncio.run_coroutine_threadsafe(self._finish(work), self.loop)

    async def _finish(self, work: Coroutine[Any, Any, None]) -> None:
        global _shared  # noqa: PLW0603 - the state of this module
        try:
            await work
        finally:
            with _lock:
                self.users -= 1
                if not self.users:
                    self.stopped = True
                    _shared = None if _shared is self else _shared
                    self.loop.call_later(0, self.loop.stop)

    def join_if_stopped(self) -> None:
        """Wait until the thread has ended, if its last user is gone; the search for a host may hold it up."""
        if self.stopped:
            self._thread.join(_STOP_SECONDS)


_lock = threading.RLock()
_shared: _LoopThread | None = None
inherited: list[object] = []
"""What a forked process has from its parent. Closing it here would remove the parent's sockets from its selector."""


def _forget_parent() -> None:
    """Start anew in a forked process, where the thread of the loop is not, nor the thread that held the lock."""
    global _lock, _shared
    inherited.append(_shared)
    _lock, _shared = threading.RLock(), None


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_parent)


class EventLoopHandle:
    """One server's handle on the event loop, acquired when it is first needed.

    Closing it cancels the server's tasks, calls what ``on_close`` lists, and releases the loop. A closed handle can be
    used again: it acquires the loop again.
    """

    def __init__(self) -> None:
        self._acquired: _LoopThread | None = None
        self.closings = 0
        """How often it was closed: a stream that was open meanwhile gets no more answers."""
        self.tasks: set[asyncio.Task[Any]] = set()
        self.on_close: list[Callable[[], Coroutine[Any, Any, None]]] = []
        _handles.add(self)

    @property
    def _thread(self) -> _LoopThread:
        global _shared  # noqa: PLW0603 - the state of this module
        with _lock:
            if self._acquired is not None and self._acquired.process != os.getpid():
                self.close_later()
            if self._acquired is None:
                if _shared is None:
                    _shared = _LoopThread()
                _shared.users += 1
                self._acquired = _shared
            return self._acquired

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Schedule a callback in the loop. Any thread may call this."""
        self._thread.loop.call_soon_threadsafe(callback)

    def create_task(self, work: Coroutine[Any, Any, None], group: set[asyncio.Task[Any]]) -> None:
        """Start a task, which stays in the group until it is done. Call this in the loop."""
        task = asyncio.get_running_loop().create_task(work)
        for tasks in (group, self.tasks):
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop to its end, and return its result; Ctrl-C cancels it, even at its start."""
        result: Future[T] = Future()
        group: set[asyncio.Task[Any]] = set()
        try:
            self.call_soon(lambda: self.create_task(_report(work, result), group))
            return result.result()
        except KeyboardInterrupt:
            self.cancel(group)
            raise

    def cancel(self, tasks: set[asyncio.Task[Any]]) -> None:
        """Cancel tasks, and wait until they have ended; if this handle is closed, they have."""
        thread = self._acquired
        if thread is None or thread.process != os.getpid():
            return
        cancelling = asyncio.run_coroutine_threadsafe(_cancel(tasks), thread.loop)
        if not thread.is_current:  # a garbage collection may close a stream in the loop, which cannot wait for itself
            with suppress(FutureTimeoutError):
                cancelling.result(_CANCEL_SECONDS)

    def close(self, seconds: float | None = None) -> None:
        """Cancel what runs, close what is open, and wait until that is done, or for this long."""
        thread = self._acquired
        closing = self.close_later()
        if thread is None or closing is None or thread.is_current:
            return
        closing.result(seconds)
        thread.join_if_stopped()

    def close_later(self) -> Future[None] | None:
        """Close without waiting and without a lock: garbage collections come at any point, in any thread."""
        thread, self._acquired = self._acquired, None
        tasks, self.tasks = self.tasks, set()
        on_close, self.on_close = self.on_close, []
        if thread is None:
            return None
        if thread.process != os.getpid():
            inherited.append((thread, tasks, on_close))
            return None
        self.closings += 1
        return thread.finish(_finish(tasks, on_close))


async def _report(work: Coroutine[Any, Any, T], result: Future[T]) -> None:
    """Await a coroutine, and hand its result or its error to another thread."""
    try:
        result.set_result(await work)
    except BaseException as exc:  # noqa: BLE001 - the thread that waits raises it
        result.set_exception(exc)


async def _cancel(tasks: set[asyncio.Task[Any]]) -> None:
    cancelled = set(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)


async def _finish(tasks: set[asyncio.Task[Any]], on_close: list[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    await _cancel(tasks)
    for close in on_close:
        await close()


_handles: weakref.WeakSet[EventLoopHandle] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close the connections that the user left open: the HTTP library complains about them at the end."""
    for handle in list(_handles):
        with suppress(FutureTimeoutError):
            handle.close(_EXIT_SECONDS)


# ---- the workers that answer the requests of one queue ----

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
            for task in self._tasks:
                task.cancel()
        else:
            self._results.append((request, response))

    def _schedule_notify(self) -> None:
        """Wake the thread that asks, soon: while it uses results, it competes with the loop for the interpreter."""
        if not self._notify_scheduled:
            self._notify_scheduled = True
            asyncio.get_running_loop().call_later(_NOTIFY_SECONDS, self._notify_now)

    def _notify_now(self) -> None:
        self._notify_scheduled = False
        self._notify()
