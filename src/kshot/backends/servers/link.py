"""The event loop that servers are asked in: the thread that asks turns it, so nothing competes for the interpreter."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
_ROUNDS = 3
"""A reply is read in one round of the loop and understood in the next, and in the third the next request goes out."""


class _Loop:
    """An event loop that turns when told to. All servers that a thread asks are in one: any turn moves them all."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.links = 0
        self._turning = threading.RLock()
        self._elsewhere: ThreadPoolExecutor | None = None

    def turn(self) -> None:
        """Let it go on for a few rounds over what is ready; unless another thread is at it."""
        if self._turning.acquire(blocking=False):
            try:
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
            self.loop.run_forever()
            return
        if self._elsewhere is None:
            self._elsewhere = ThreadPoolExecutor(1, "kshot-server")
        self._elsewhere.submit(self.loop.run_forever).result()

    def _stop_after(self, rounds: int) -> None:
        if rounds:
            self.loop.call_soon(self._stop_after, rounds - 1)
        else:
            self.loop.stop()

    def leave(self) -> None:
        """One link fewer; the last one closes it."""
        self.links -= 1
        if self.links or self.loop.is_running():
            return
        self.loop.close()
        if self._elsewhere is not None:
            self._elsewhere.shutdown(wait=False)


_here = threading.local()
_joining = threading.RLock()


def _joined() -> _Loop:
    """The loop of this thread, with one link more."""
    found: _Loop | None = getattr(_here, "loop", None)
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
        if self._joined is None:
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
            while self._fill(waiting, most):
                self._link.wait(self._moved)
                turned = time.perf_counter()
                while self._ready:
                    self._held -= 1
                    yield self._ready.popleft()
                    if time.perf_counter() - turned > _OFTEN:
                        self._link.turn()
                        turned = time.perf_counter()
                if self._error is not None:
                    raise self._error
        finally:
            self._over = True
            if self._held:
                self._link.soon(self._cancel)
                self._link.turn()

    def _fill(self, waiting: Waiting, most: int) -> bool:
        """Take what there is room for; say whether anything is under way."""
        while self._held < (most if self._ready else _AHEAD * most):
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
