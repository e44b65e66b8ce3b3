"""The event loop that servers are asked in: the thread that asks turns it, so nothing competes for the interpreter."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from kshot.records import Request, Response
from kshot.task import Waiting

T = TypeVar("T")

_HELPING = 32
"""Requests taken at once: taking them writes their prompts, and the wire should not wait for all of those."""
_AHEAD = 2
"""Requests kept in the loop for each that may run: the next one goes out before the last answer is used."""
_OFTEN = 0.002
"""Seconds for which answers are used before the loop is turned again."""
_LATE = 0.02
"""Seconds after which a loop that nobody turns is turned by its keeper: whoever asks may be busy for long."""
_ROUNDS = 3
"""A reply is read in one round of the loop and understood in the next, and in the third the next request goes out."""


class _Loop:
    """An event loop that turns when told to. All servers that a thread asks are in one: any turn moves them all."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.process = os.getpid()
        self.links = 0
        self._turning = threading.RLock()
        self._elsewhere: ThreadPoolExecutor | None = None
        self._turned = time.perf_counter()
        self._asking = 0
        self._keeper: threading.Thread | None = None

    @contextmanager
    def kept(self) -> Iterator[None]:
        """See to it that it turns even while whoever asks does something else."""
        with _joining:
            self._asking += 1
            missing = self._keeper is None
            if missing:
                self._keeper = threading.Thread(target=self._keep, name="kshot-keeper", daemon=True)
        if missing and self._keeper is not None:
            self._keeper.start()  # without the lock: a collected server may want it in the new thread
        try:
            yield
        finally:
            with _joining:
                self._asking -= 1

    def _keep(self) -> None:
        while True:
            time.sleep(_LATE)
            with _joining:
                if not self._asking:
                    self._keeper = None
                    return
            if time.perf_counter() - self._turned > _LATE:
                self.turn()

    def turn(self) -> None:
        """Let it go on for a few rounds over what is ready; unless somebody is at it."""
        if self._turning.acquire(blocking=False):
            try:
                if not self.loop.is_running() and not self.loop.is_closed():
                    self._stop_after(_ROUNDS)
                    self._run()
            finally:
                self._turning.release()

    def wait(self, until: Callable[[], bool]) -> None:
        """Let it go on until then, which is looked at when something is done. Another thread may be turning it."""
        while not until():
            if not self._turning.acquire(blocking=False):
                time.sleep(_OFTEN)
                continue
            try:
                if not until():
                    self._run()
            finally:
                self._turning.release()

    def _run(self) -> None:
        if not _occupied():
            with _interruptible(self.loop):
                self.loop.run_forever()
        else:
            if self._elsewhere is None:
                self._elsewhere = ThreadPoolExecutor(1, "kshot-server")
            self._elsewhere.submit(self.loop.run_forever).result()
        self._turned = time.perf_counter()
        if not self.links:
            self._close()

    def _stop_after(self, rounds: int) -> None:
        if rounds:
            self.loop.call_soon(self._stop_after, rounds - 1)
        else:
            self.loop.stop()

    def leave(self) -> None:
        """One link fewer; the last one closes it, now or when it has turned."""
        with _joining:
            self.links -= 1
        if not self.links:
            with self._turning:
                self._close()

    def _close(self) -> None:
        with _joining:
            if self.links or self.loop.is_running() or self.loop.is_closed():
                return
            self.loop.close()
            if self._elsewhere is not None:
                self._elsewhere.shutdown(wait=False)


@contextmanager
def _interruptible(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let Ctrl-C stop the loop between two callbacks: within one, it would tear the HTTP library apart."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came = False

    def stop(*_: object) -> None:
        nonlocal came
        came = True
        loop.call_soon_threadsafe(loop.stop)

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt


_here = threading.local()
_joining = threading.RLock()
abandoned: list[object] = []
"""What a forked process has of its parent: closing it here would take the parent's sockets out of its selector."""


def _forked() -> None:
    """Whoever held the lock is not in this process."""
    global _joining  # noqa: PLW0603
    _joining = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _joined() -> _Loop:
    """The loop of this thread, with one link more; a forked process must not touch its parent's."""
    found: _Loop | None = getattr(_here, "loop", None)
    if found is not None and found.process != os.getpid():
        abandoned.append(found)
        found = None
    if found is None or found.loop.is_closed():
        found = _here.loop = _Loop()
    found.links += 1
    return found


def _occupied() -> bool:
    """Whether this thread runs a loop already, as a notebook does: then it can run no other."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Link:
    """One server's part of the loop, joined when first needed; ``close`` ends it, after what ``closing`` lists."""

    def __init__(self) -> None:
        self._joined: _Loop | None = None
        self.tasks: set[asyncio.Task[Any]] = set()
        self.closing: list[Callable[[], Coroutine[Any, Any, None]]] = []

    @property
    def _shared(self) -> _Loop:
        with _joining:
            if self._joined is not None and self._joined.process != os.getpid():
                abandoned.append((self._joined, self.tasks, self.closing))
                self._joined, self.tasks, self.closing = None, set(), []
            if self._joined is None:
                self._joined = _joined()
            return self._joined

    def soon(self, call: Callable[..., None], *given: Any) -> None:
        """Call this in the loop, when it turns: another thread may be doing that."""
        self._shared.loop.call_soon_threadsafe(call, *given)

    def begin(self, works: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Begin some work; to be called in the loop."""
        for work in works:
            task = asyncio.get_running_loop().create_task(work)
            self.tasks.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        """Give whoever turns the loop the word: in the next round, when what this made possible is under way."""
        self.tasks.discard(task)
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.stop)

    def turn(self) -> None:
        """Let everything go on for a moment."""
        self._shared.turn()

    def wait(self, until: Callable[[], bool]) -> None:
        """Let everything go on until then, which is looked at when something is done."""
        self._shared.wait(until)

    def kept(self) -> AbstractContextManager[None]:
        """See to it that everything goes on, whatever this thread does."""
        return self._shared.kept()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        loop = self._shared.loop
        found = asyncio.run_coroutine_threadsafe(work, loop)
        found.add_done_callback(lambda _: loop.call_soon(loop.stop))
        try:
            self.wait(found.done)
        finally:
            found.cancel()
        return found.result()

    def close(self) -> None:
        """Cancel what runs, close what is open."""
        if self._joined is None or self._joined.process != os.getpid():
            return
        shared, loop = self._joined, self._joined.loop
        if loop.is_running():  # the last reference went while it turned, here or in another thread
            asyncio.run_coroutine_threadsafe(self._finish(), loop)
        else:
            self.run(self._finish())
        self._joined = None
        shared.leave()

    async def _finish(self) -> None:
        tasks = set(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for close in self.closing:
            await close()
        self.closing.clear()


class Serving:
    """One ``serve`` of a backend: its requests in the loop, and the way back."""

    def __init__(self, link: Link, answer: Callable[[Request], Coroutine[Any, Any, Response]]) -> None:
        self._link, self._answer = link, answer
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ready: deque[tuple[Request, Response]] = deque()
        self._held = 0
        self._over = False
        self._error: BaseException | None = None

    def pairs(self, waiting: Waiting, most: int) -> Iterator[tuple[Request, Response]]:
        """Keep ``most`` requests under way, and yield what comes back; an error after what came before it."""
        try:
            with self._link.kept():
                while self._fill(waiting, most):
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
        turned = time.perf_counter()
        while self._ready:
            self._held -= 1
            yield self._ready.popleft()
            if time.perf_counter() - turned > _OFTEN:
                self._link.turn()
                turned = time.perf_counter()

    def _fill(self, waiting: Waiting, most: int) -> bool:
        """Take what there is room for, as long as no answer waits for it; say whether anything is under way."""
        began = time.perf_counter()
        while self._held < _AHEAD * most:
            if self._ready and (self._held >= most or time.perf_counter() - began > _LATE):
                break
            taken = waiting.take(min(_HELPING, _AHEAD * most - self._held))
            if not taken:
                break
            self._held += len(taken)
            self._link.soon(self._link.begin, [self._one(request) for request in taken])
            self._link.turn()
        return self._held > 0

    def _moved(self) -> bool:
        return bool(self._ready) or self._error is not None

    async def _one(self, request: Request) -> None:
        task = asyncio.current_task()
        if self._over or self._error is not None or task is None:
            return
        self._tasks.add(task)
        try:
            response = await self._answer(request)
        except asyncio.CancelledError:
            raise
        except BaseException as exc:  # noqa: BLE001 - raised again where it was asked
            self._error = self._error or exc
            self._cancel()
        else:
            self._ready.append((request, response))
        finally:
            self._tasks.discard(task)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
