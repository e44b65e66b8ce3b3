"""The event loop that servers are asked in: the thread that asks turns it, so nothing competes for the interpreter."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

OFTEN = 0.002
"""Seconds for which answers are used before the loop is turned again."""
LATE = 0.02
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
        self._rounds = 0
        self.interrupted = self._stopping = False

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
            with heard():
                yield
        finally:
            with _joining:
                self._asking -= 1

    def _keep(self) -> None:
        while True:
            time.sleep(LATE)
            with _joining:
                if not self._asking:
                    self._keeper = None
                    return
            if time.perf_counter() - self._turned > LATE:
                self.turn()

    def turn(self) -> None:
        """Let it go on for a few rounds over what is ready; unless somebody is at it."""
        if self._turning.acquire(blocking=False):
            try:
                if not self.loop.is_running() and not self.loop.is_closed():
                    self._rounds = _ROUNDS
                    self.loop.call_soon(self._round)
                    self._run()
            finally:
                self._rounds = 0
                self._turning.release()

    def wait(self, until: Callable[[], bool]) -> None:
        """Let it go on until then, which is looked at when something is done. Another thread may be turning it."""
        while not until():
            if not self._turning.acquire(blocking=False):
                time.sleep(OFTEN)
                continue
            try:
                if not until():
                    self._run()
            finally:
                self._turning.release()

    def _run(self) -> None:
        if not _occupied():
            with _inside(self):
                self.loop.run_forever()
        else:
            if self._elsewhere is None:
                self._elsewhere = ThreadPoolExecutor(1, "kshot-server")
            turning = self._elsewhere.submit(self.loop.run_forever)
            try:
                turning.result()
            except BaseException:  # Ctrl-C comes up here, and stops nothing there
                self.loop.call_soon_threadsafe(self.loop.stop)
                turning.result()
                raise
        self._turned = time.perf_counter()
        if not self.links:
            self._close()

    def stop_soon(self) -> None:
        """Give whoever waits the word, in the next round; to be called in the loop."""
        if not self._stopping:
            self._stopping = True
            self.loop.call_soon(self._stop)

    def _stop(self) -> None:
        self._stopping = False
        if not self._rounds:  # else whoever turns it looks by himself, after the last
            self.loop.stop()

    def _round(self) -> None:
        if self._rounds > 1:
            self._rounds -= 1
            self.loop.call_soon(self._round)
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


_hearing = 0
_turned_here: _Loop | None = None
"""The loop that the main thread is in, where Ctrl-C comes up."""


@contextmanager
def heard() -> Iterator[None]:
    """Have Ctrl-C stop a loop between two callbacks: within one, it would tear the HTTP library apart.

    Elsewhere it does what it always did; a handler of the user's own stays.
    """
    global _hearing  # noqa: PLW0603 - there is one Ctrl-C
    if not _in_main_thread():
        yield
        return
    _hearing += 1
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        _hearing -= 1
        if not _hearing and _in_main_thread() and signal.getsignal(signal.SIGINT) is _interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(*_: object) -> None:
    if _turned_here is None:
        raise KeyboardInterrupt
    _turned_here.interrupted = True
    _turned_here.loop.call_soon_threadsafe(_turned_here.loop.stop)


@contextmanager
def _inside(loop: _Loop) -> Iterator[None]:
    global _turned_here  # noqa: PLW0603
    if not _in_main_thread():
        yield
        return
    loop.interrupted, _turned_here = False, loop
    try:
        yield
    finally:
        _turned_here = None
    if loop.interrupted:
        raise KeyboardInterrupt


_here = threading.local()
_joining = threading.RLock()
abandoned: list[object] = []
"""What a forked process has of its parent: closing it here would take the parent's sockets out of its selector."""


def _forked() -> None:
    """Whoever held the lock, or turned a loop, is not in this process."""
    global _joining, _hearing, _turned_here  # noqa: PLW0603
    _joining = threading.RLock()
    _hearing, _turned_here = 0, None


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
            with heard():
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
