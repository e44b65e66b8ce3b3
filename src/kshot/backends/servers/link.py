"""The event loop that servers are asked in: the thread that asks turns it, so nothing competes for the interpreter."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from kshot.records import Request, Response
from kshot.task import Waiting

T = TypeVar("T")

_HELPING = 32
"""Requests taken at once: taking them writes their prompts, and the wire should not wait for all of those."""
_AHEAD = 4
"""Requests made for each that may run, where there is time: the next one goes out before the last answer is used."""
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
        self._hearing = 0
        self._inside = self._interrupted = self._stopping = False

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
            with self.heard():
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

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Have Ctrl-C heard by this loop, by the last who asks again by Python; a handler of the user's own stays."""
        if not _in_main_thread():
            yield
            return
        self._hearing += 1
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            self._hearing -= 1
            if not self._hearing and _in_main_thread() and signal.getsignal(signal.SIGINT) == self._interrupt:
                signal.signal(signal.SIGINT, signal.default_int_handler)

    def _interrupt(self, *_: object) -> None:
        """Stop between two callbacks: within one, it would tear the HTTP library apart."""
        if not self._inside:
            raise KeyboardInterrupt
        self._interrupted = True
        self.loop.call_soon_threadsafe(self.loop.stop)

    def _run(self) -> None:
        if not _occupied():
            self._inside = _in_main_thread()
            try:
                self.loop.run_forever()
            finally:
                self._inside = False
            if self._interrupted:
                self._interrupted = False
                raise KeyboardInterrupt
        else:
            if self._elsewhere is None:
                self._elsewhere = ThreadPoolExecutor(1, "kshot-server")
            self._elsewhere.submit(self.loop.run_forever).result()
        self._turned = time.perf_counter()
        if not self.links:
            self._close()

    def stop_soon(self) -> None:
        """Give whoever turns it the word, in the next round; to be called in the loop."""
        if not self._stopping:
            self._stopping = True
            self.loop.call_soon(self._stop)

    def _stop(self) -> None:
        self._stopping = False
        self.loop.stop()

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


def _in_main_thread() -> bool:
    """Whether Ctrl-C comes up here."""
    return threading.current_thread() is threading.main_thread()


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

    def soon(self, call: Callable[[], object]) -> None:
        """Call this in the loop, when it turns: another thread may be doing that."""
        self._shared.loop.call_soon_threadsafe(call)

    def begin(self, work: Coroutine[Any, Any, None], among: set[asyncio.Task[Any]]) -> None:
        """Begin some work, and keep it until it is done; to be called in the loop."""
        task = asyncio.get_running_loop().create_task(work)
        for kept in (among, self.tasks):
            kept.add(task)
            task.add_done_callback(kept.discard)

    def word(self) -> None:
        """Tell whoever waits that something is done; to be called in the loop."""
        if self._joined is not None:
            self._joined.stop_soon()

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
        shared = self._shared
        found = asyncio.run_coroutine_threadsafe(work, shared.loop)
        found.add_done_callback(lambda _: shared.stop_soon())
        try:
            with shared.heard():
                shared.wait(found.done)
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
    """One ``serve`` of a backend: so many at work in the loop, what they have to do, and the way back.

    ``resting`` counts those that only wait to try again; others work in their place.
    """

    def __init__(
        self,
        link: Link,
        answer: Callable[[Request], Coroutine[Any, Any, Response]],
        most: int,
        resting: Callable[[], int] = lambda: 0,
    ) -> None:
        self._link, self._answer, self._most, self._resting = link, answer, most, resting
        self._tasks: set[asyncio.Task[Any]] = set()
        self._todo: deque[Request] = deque()
        self._ready: deque[tuple[Request, Response]] = deque()
        self._held = 0
        self._over = False
        self._error: BaseException | None = None

    def pairs(self, waiting: Waiting) -> Iterator[tuple[Request, Response]]:
        """Keep as many requests under way as may be, and yield what comes back; an error after what came before it."""
        try:
            with self._link.kept():
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
            if time.perf_counter() - turned > _OFTEN:
                self._link.turn()
                turned = time.perf_counter()
                if not self._todo and self._error is None:
                    return

    def _fill(self, waiting: Waiting) -> bool:
        """Take what is to be done next, as long as no answer waits for it; say whether anything is under way."""
        began = time.perf_counter()
        while self._held < _AHEAD * self._most:
            if self._ready and (len(self._todo) >= self._most or time.perf_counter() - began > _LATE):
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

    def _start(self) -> int:
        """Have as many at work as may be; return how many are lacking, or too many if below 0."""
        room = self._most + self._resting() - len(self._tasks)
        for _ in range(min(room, len(self._todo))):
            self._link.begin(self._work(), self._tasks)
        return room

    async def _work(self) -> None:
        """Answer one request after the other, as long as there are any."""
        while self._todo and not self._over and self._error is None:
            request = self._todo.popleft()
            try:
                response = await self._answer(request)
            except asyncio.CancelledError:
                raise
            except BaseException as exc:  # noqa: BLE001 - raised again where it was asked
                self._error = self._error or exc
                self._cancel()
            else:
                self._ready.append((request, response))
            self._link.word()
            if self._start() < 0:  # somebody who rested is back
                return

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
