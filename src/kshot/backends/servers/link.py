"""One event loop in one thread for one server: requests go in, answers come out in batches, in any order."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from kshot.records import Request, Response
from kshot.task import Waiting

T = TypeVar("T")
Pairs = list[tuple[Request, Response]]

_HELPING = 32
"""Requests taken at once: taking them writes their prompts, and the wire should not wait for all of those."""


class Link:
    """A thread with an event loop, made when first needed; ``close`` ends both, after what ``closing`` lists."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.closing: list[Callable[[], Coroutine[Any, Any, None]]] = []

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop."""
        if self._loop is None:
            self._loop = _new_loop()
            self._thread = threading.Thread(target=_turn, args=(self._loop,), name="kshot-server", daemon=True)
            self._thread.start()
        return self._loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for it here."""
        found: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return found.result()
        except BaseException:
            found.cancel()
            raise

    def close(self) -> None:
        """Cancel what runs, close what is open, end the thread."""
        if self._loop is None or self._thread is None:
            return
        loop, self._loop = self._loop, None
        asyncio.run_coroutine_threadsafe(self._finish(), loop)
        if threading.current_thread() is not self._thread:  # the last reference may go in either thread
            self._thread.join(timeout=5)

    async def _finish(self) -> None:
        loop = asyncio.get_running_loop()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for close in self.closing:
            await close()
        loop.call_soon(loop.stop)


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    made: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return made


class Serving:
    """One ``serve`` of a backend: its requests in the loop, and the way back."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, answer: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> None:
        self._loop, self._answer = loop, answer
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready: Pairs = []
        self._error: BaseException | None = None
        self._flushing = False
        self._out: queue.SimpleQueue[Pairs | BaseException] = queue.SimpleQueue()

    def pairs(self, waiting: Waiting, room: int) -> Iterator[tuple[Request, Response]]:
        """Keep up to ``room`` requests in the loop, and yield what comes back."""
        held = 0
        try:
            while True:
                while held < room and (taken := waiting.take(min(_HELPING, room - held))):
                    held += len(taken)
                    self._loop.call_soon_threadsafe(self._begin, taken)
                    if not self._out.empty():
                        break
                if not held:
                    return
                came = self._out.get()
                if isinstance(came, BaseException):
                    raise came
                held -= len(came)
                yield from came
        finally:
            if held:
                self._loop.call_soon_threadsafe(self._cancel)

    def _begin(self, requests: Sequence[Request]) -> None:
        for request in requests:
            task = self._loop.create_task(self._one(request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _one(self, request: Request) -> None:
        try:
            response = await self._answer(request)
            self._ready.append((request, response))
        except asyncio.CancelledError:
            raise
        except BaseException as exc:  # noqa: BLE001 - raised again in the thread that asked
            self._error = self._error or exc
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Hand over everything that this turn of the loop brought, at once; an error after what came before it."""
        self._flushing = False
        if self._ready:
            self._out.put(self._ready)
            self._ready = []
        if self._error is not None:
            self._out.put(self._error)
            self._cancel()

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
