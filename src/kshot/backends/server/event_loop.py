"""The event loop in which servers are asked. The thread that asks runs it, so no other thread competes with it."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from kshot.backends.server import interrupts

T = TypeVar("T")

RUN_INTERVAL_SECONDS = 0.002
"""How long a thread may use answers before it runs the loop again."""
IDLE_SECONDS = 0.02
"""If no thread has run the loop for this long, the background thread does: the thread that asks may be busy."""
_ITERATIONS = 3
"""One iteration reads a reply, the next one parses it, and the third sends the next request."""


class _ThreadLoop:
    """The event loop of one thread. All servers that the thread asks share it: running it serves all of them."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.process = os.getpid()
        self.handles = 0
        self._run_lock = threading.RLock()
        self._executor: ThreadPoolExecutor | None = None
        self._last_run = time.perf_counter()
        self._background_users = 0
        self._background_thread: threading.Thread | None = None
        self._iterations_left = 0
        self._stop_scheduled = False

    @contextmanager
    def background(self) -> Iterator[None]:
        """Have a background thread run the loop in this block, whenever this thread does something else."""
        with _lock:
            self._background_users += 1
            missing = self._background_thread is None
            if missing:
                self._background_thread = threading.Thread(
                    target=self._run_in_background, name="kshot-event-loop", daemon=True
                )
        if missing and self._background_thread is not None:
            self._background_thread.start()  # without the lock: a server collected in the new thread may want it
        try:
            with interrupts.stopping_loops():
                yield
        finally:
            with _lock:
                self._background_users -= 1

    def _run_in_background(self) -> None:
        while True:
            time.sleep(IDLE_SECONDS)
            with _lock:
                if not self._background_users:
                    self._background_thread = None
                    return
            if time.perf_counter() - self._last_run > IDLE_SECONDS:
                self.run_ready()

    def run_ready(self) -> None:
        """Run what is ready, for a few iterations of the loop, unless another thread runs the loop now."""
        if self._run_lock.acquire(blocking=False):
            try:
                if not self.loop.is_running() and not self.loop.is_closed():
                    self._iterations_left = _ITERATIONS
                    self.loop.call_soon(self._count_iteration)
                    self._run()
            finally:
                self._iterations_left = 0
                self._run_lock.release()

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Run the loop until the condition holds, which is checked after each ``notify``.

        Another thread may be running the loop; then this thread only waits.
        """
        while not condition():
            if not self._run_lock.acquire(blocking=False):
                time.sleep(RUN_INTERVAL_SECONDS)
                continue
            try:
                if not condition():
                    self._run_inside()
            finally:
                self._run_lock.release()

    def _run_inside(self) -> None:
        """Run the loop, perhaps inside ``run_ready``: a garbage collection there may close a server and wait for it.

        The iterations of ``run_ready`` wait meanwhile. They would keep ``notify`` from stopping this run.
        """
        left, self._iterations_left = self._iterations_left, 0
        self._run()
        if left:
            self._iterations_left = left
            self.loop.call_soon(self._count_iteration)

    def _run(self) -> None:
        if not _has_running_loop():
            with interrupts.running(self.loop):
                self.loop.run_forever()
        else:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, "kshot-server")
            running = self._executor.submit(self.loop.run_forever)
            try:
                running.result()
            except BaseException:  # Ctrl-C is raised in this thread, and does not stop the loop in the other
                self.loop.call_soon_threadsafe(self.loop.stop)
                running.result()
                raise
        self._last_run = time.perf_counter()
        if not self.handles:
            self._close()

    def notify(self) -> None:
        """Wake the thread that waits in ``run_until``, in the next iteration. Call this in the loop."""
        if not self._stop_scheduled:
            self._stop_scheduled = True
            self.loop.call_soon(self._stop)

    def _stop(self) -> None:
        self._stop_scheduled = False
        if not self._iterations_left:  # otherwise ``run_ready`` stops the loop itself after its last iteration
            self.loop.stop()

    def _count_iteration(self) -> None:
        if self._iterations_left > 1:
            self._iterations_left -= 1
            self.loop.call_soon(self._count_iteration)
        else:
            self.loop.stop()

    def release(self) -> None:
        """Give one handle back; with the last one the loop closes, now or when it stops."""
        with _lock:
            self.handles -= 1
        if not self.handles:
            with self._run_lock:
                self._close()

    def _close(self) -> None:
        with _lock:
            if self.handles or self.loop.is_running() or self.loop.is_closed():
                return
            self.loop.close()
            if self._executor is not None:
                self._executor.shutdown(wait=False)


class _ThreadState(threading.local):
    """What belongs to one thread: its event loop."""

    loop: _ThreadLoop | None = None


_state = _ThreadState()
_lock = threading.RLock()
inherited: list[object] = []
"""What a forked process has from its parent. Closing it here would remove the parent's sockets from its selector."""


def _reset_after_fork() -> None:
    """Replace the lock: the thread that held it is not in this process."""
    global _lock  # noqa: PLW0603 - the state of this module
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_reset_after_fork)


def _acquire_loop() -> _ThreadLoop:
    """Return the loop of this thread, with one handle more; a forked process must not touch that of its parent."""
    found = _state.loop
    if found is not None and found.process != os.getpid():
        inherited.append(found)
        found = None
    if found is None or found.loop.is_closed():
        found = _state.loop = _ThreadLoop()
    found.handles += 1
    return found


def _has_running_loop() -> bool:
    """Whether a loop runs in this thread already, as in a notebook: then the thread cannot run another one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class EventLoopHandle:
    """One server's handle on the event loop of its thread, acquired when it is first needed.

    ``close`` cancels the server's tasks, calls what ``on_close`` lists, and releases the loop. A closed handle can be
    used again: it acquires the loop again.
    """

    def __init__(self) -> None:
        self._acquired: _ThreadLoop | None = None
        self.tasks: set[asyncio.Task[Any]] = set()
        self.on_close: list[Callable[[], Coroutine[Any, Any, None]]] = []

    @property
    def _shared(self) -> _ThreadLoop:
        with _lock:
            if self._acquired is not None and self._acquired.process != os.getpid():
                inherited.append((self._acquired, self.tasks, self.on_close))
                self._acquired, self.tasks, self.on_close = None, set(), []
            if self._acquired is None:
                self._acquired = _acquire_loop()
            return self._acquired

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Schedule a callback in the loop, which another thread may be running."""
        self._shared.loop.call_soon_threadsafe(callback)

    def create_task(self, work: Coroutine[Any, Any, None], group: set[asyncio.Task[Any]]) -> None:
        """Start a task, which stays in the group until it is done. Call this in the loop."""
        task = asyncio.get_running_loop().create_task(work)
        for tasks in (group, self.tasks):
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    def notify(self) -> None:
        """Wake the thread that waits for a result. Call this in the loop."""
        if self._acquired is not None:
            self._acquired.notify()

    def run_ready(self) -> None:
        """Run what is ready, for a few iterations of the loop."""
        self._shared.run_ready()

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Run the loop until the condition holds, which is checked after each ``notify``."""
        self._shared.run_until(condition)

    def background(self) -> AbstractContextManager[None]:
        """Have a background thread run the loop in this block, whenever this thread does something else."""
        return self._shared.background()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        shared = self._shared
        future = asyncio.run_coroutine_threadsafe(work, shared.loop)
        future.add_done_callback(lambda _: shared.notify())
        try:
            with interrupts.stopping_loops():
                shared.run_until(future.done)
        finally:
            future.cancel()
        return future.result()

    def close(self) -> None:
        """Cancel what runs, and close what is open."""
        if self._acquired is None or self._acquired.process != os.getpid():
            return
        shared, loop = self._acquired, self._acquired.loop
        if loop.is_running():  # the last reference was dropped while the loop ran, here or in another thread
            asyncio.run_coroutine_threadsafe(self._finish(), loop)
        else:
            self.run(self._finish())
        self._acquired = None
        shared.release()

    async def _finish(self) -> None:
        tasks = set(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for close in self.on_close:
            await close()
        self.on_close.clear()
