"""What the dispatcher, a launcher and a worker say to one another, and the loop of a worker.

A *job* is what workers do. It travels to each of them by pickling, and is opened there once. *Items* are pieces of work
with a number; they are sent in *chunks*. A launcher starts workers and carries messages to them and events back.

The rules of a launcher:

- ``start`` returns at once. Every worker then says ``Placed``, ``Opened`` and, for its chunks, ``Begun``,
  ``ItemResults`` and ``GivenBack``, in this order for each of them.
- ``Raised`` or ``Died`` is the last event of a worker. After ``Died`` the dispatcher may call ``restart``, and the
  events begin again with ``Placed``. Nothing of the earlier life comes after that.
- Results arrive in the order in which they were sent; what a worker had not sent when it died is lost.
- ``report`` may be called from any thread. A launcher reports ``WaitsFor`` for a worker that has no place yet.
- ``close`` leaves nothing behind: no process, no actor, no file. The ``idle`` workers close their jobs first; the
  others are ended at once, whatever they compute.
"""

from __future__ import annotations

import pickle
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from kshot.core.errors import BackendError, DataError, KshotError, UsageError

# ---- what a worker does ----


class OpenJob(ABC):
    """A job that is open in a worker."""

    facts: Any = "open"
    """What the dispatcher should know of it; all workers must say the same."""

    @abstractmethod
    def work(self, queue: WorkQueue, /) -> Iterator[tuple[int, Any]]:
        """Yield each item's number with its result, in any order, until none waits."""

    def call(self, name: str, *arguments: Any) -> Any:
        """Answer a question beside the work, in another thread than ``work``."""
        raise NotImplementedError(name, arguments)

    def report(self) -> Any:  # noqa: B027 - not every job has something to say
        """Return what the dispatcher should know of the work so far; it goes with the results."""

    def close(self) -> None:  # noqa: B027 - not every job holds something open
        """Release what is open."""


Job: TypeAlias = Callable[[], OpenJob]
"""Opens what workers do. It is pickled, and called once in each worker; an error ends the run."""


# ---- messages to a worker ----


@dataclass(frozen=True, slots=True)
class WorkChunk:
    """Items to work on, with their numbers."""

    items: tuple[tuple[int, Any], ...]


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Give half of the items back that the job has not taken: another worker has nothing to do."""


@dataclass(frozen=True, slots=True)
class Call:
    """Answer a question beside the work."""

    number: int
    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class CloseJob:
    """Close the job and end."""


Message: TypeAlias = WorkChunk | GiveBack | Call | CloseJob

# ---- events of a worker ----


@dataclass(frozen=True, slots=True)
class WaitsFor:
    """There is no place for it yet; ``what`` says what it needs and what there is. Said by the launcher."""

    what: str


@dataclass(frozen=True, slots=True)
class Placed:
    """Its process runs. ``where``: its process id, and the machine if it is another one."""

    where: str


@dataclass(frozen=True, slots=True)
class Opened:
    """The job is open."""

    facts: Any


@dataclass(frozen=True, slots=True)
class Begun:
    """The job has taken all items that wait: it can be sent more."""


@dataclass(frozen=True, slots=True)
class ItemResults:
    """Results by number, and the job's report."""

    results: tuple[tuple[int, Any], ...]
    report: Any


@dataclass(frozen=True, slots=True)
class GivenBack:
    """These items go back: the job had not taken them."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The answer to a ``Call``."""

    number: int
    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """An error in the worker, in parts: exceptions of others do not always survive pickling."""

    kind: type[KshotError]
    what: str
    where: str
    hint: str

    @classmethod
    def of(cls, error: BaseException, doing: str) -> Raised:
        """Take an error apart; ``doing`` says what failed, if the error is not one that speaks to the user."""
        if not isinstance(error, KshotError):
            return cls(BackendError, f"{doing}: {type(error).__name__}: {error}", "", "")
        kind = next((kind for kind in (UsageError, DataError) if isinstance(error, kind)), BackendError)
        return cls(kind, error.what, error.where, error.hint)

    def error(self, where: str) -> KshotError:
        """Put it together again; ``where`` is named if the error names no place."""
        return self.kind(self.what, where=self.where or where, hint=self.hint)


@dataclass(frozen=True, slots=True)
class Died:
    """Its process is gone. Said by the launcher."""

    reason: str


Event: TypeAlias = WaitsFor | Placed | Opened | Begun | ItemResults | GivenBack | CallAnswer | Raised | Died

Report: TypeAlias = Callable[[int, Sequence[Event]], None]
"""Receives the events of a worker, by its number; any thread may call it."""


class Launcher(Protocol):
    """Starts workers somewhere, and carries messages and events. The rules are at the top of this module."""

    def start(self, job: Job, workers: int, report: Report, /) -> None:
        """Start this many workers, numbered from 0."""
        ...

    def restart(self, worker: int, /) -> None:
        """Start a worker again that has died."""
        ...

    def send(self, worker: int, message: Message, /) -> None:
        """Send a message to a worker; it is lost if the worker is gone."""
        ...

    def close(self, idle: Collection[int], /) -> None:
        """End all workers; the ``idle`` ones close their jobs first."""
        ...


# ---- the loop, the same for all launchers: it opens the job, gives it items, and sends the results back ----

MESSAGE_SECONDS = 0.05
"""Results of so many seconds are sent in one message."""


def packed_events(events: Sequence[Event]) -> bytes:
    """Pickle events; an answer that cannot be pickled becomes an error."""
    try:
        return pickle.dumps(events, pickle.HIGHEST_PROTOCOL)
    except Exception as exc:  # noqa: BLE001 - a plug-in may answer with anything
        return pickle.dumps([Raised.of(exc, "an answer cannot leave its worker process")])


class _Outbox:
    """Sends events from a thread of its own: the job never waits for the other side."""

    def __init__(self, send: Callable[[Sequence[Event]], None]) -> None:
        self._send = send
        self._lock = threading.Condition()
        self._events: list[Event] = []
        self._results: list[tuple[int, Any]] = []
        self._report: Callable[[], Any] = lambda: None
        self._urgent = self._ended = False
        self._thread = threading.Thread(target=self._run, name="kshot outbox", daemon=True)
        self._thread.start()

    def follow(self, report: Callable[[], Any]) -> None:
        """Send what this returns along with results."""
        self._report = report

    def put(self, event: Event) -> None:
        """Send an event soon."""
        with self._lock:
            self._events.append(event)
            self._urgent = True
            self._lock.notify()

    def add(self, number: int, result: Any) -> None:
        """Send a result within ``MESSAGE_SECONDS``."""
        with self._lock:
            self._results.append((number, result))
            self._lock.notify()

    def end(self) -> None:
        """Send what there is, and end."""
        with self._lock:
            self._ended = True
            self._lock.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._events or self._results or self._ended)
                self._lock.wait_for(lambda: self._urgent or self._ended, MESSAGE_SECONDS)
                found, self._results = self._results, []
                events, self._events = self._events, []
                self._urgent, ended = False, self._ended
            if found:
                events.insert(0, ItemResults(tuple(found), self._report()))
            if events:
                self._send(events)
            if ended and not events:
                return


class WorkQueue:
    """The items that a worker was sent and that its job has not taken. More may join while the job works."""

    def __init__(self, begun: Callable[[], None]) -> None:
        self._begun = begun
        self._lock = threading.Condition()
        self._items: deque[tuple[int, Any]] = deque()
        self._woken = threading.Event()
        self._closed = False
        self.under_way: set[int] = set()

    def take(self, at_most: int | None = None, /) -> list[tuple[int, Any]]:
        """Remove and return items with their numbers: all of them, or at most this many. None may wait now."""
        with self._lock:
            count = len(self._items) if at_most is None else min(at_most, len(self._items))
            taken = [self._items.popleft() for _ in range(count)]
            self.under_way.update(number for number, _ in taken)
            emptied = bool(taken) and not self._items
        if emptied:
            self._begun()
        return taken

    def wait(self, seconds: float, /) -> None:
        """Wait until ``wake`` is called, for this many seconds at most."""
        self._woken.wait(seconds)
        self._woken.clear()

    def wake(self) -> None:
        """End a ``wait``; any thread may call this."""
        self._woken.set()

    def add(self, items: Sequence[tuple[int, Any]]) -> None:
        """Take items that were sent."""
        with self._lock:
            self._items.extend(items)
            self._lock.notify()
        self.wake()

    def give_back(self) -> tuple[int, ...]:
        """Remove the last half of what waits, and return its numbers."""
        with self._lock:
            given = tuple(self._items.pop()[0] for _ in range((len(self._items) + 1) // 2))
            emptied = bool(given) and not self._items
        if emptied:  # nothing is left to begin, so that no take would say so
            self._begun()
        return given

    def close(self) -> None:
        """Drop what waits: nothing more will come."""
        with self._lock:
            self._closed = True
            self._items.clear()
            self._lock.notify()

    def any_waits(self) -> bool:
        """Wait until something waits, or until there will be nothing more; return whether something waits."""
        with self._lock:
            self._lock.wait_for(lambda: self._items or self._closed)
            return bool(self._items)


class WorkerLoop:
    """Runs a job. ``run`` is called by one thread, ``receive`` by another, for each message that arrives."""

    def __init__(self, send: Callable[[Sequence[Event]], None]) -> None:
        """Take what sends events to the dispatcher."""
        self._outbox = _Outbox(send)
        self._inbox = WorkQueue(lambda: self._outbox.put(Begun()))
        self._open: OpenJob | None = None

    def receive(self, message: Message) -> None:
        """Take a message."""
        match message:
            case WorkChunk(items):
                self._inbox.add(items)
            case GiveBack():
                self._outbox.put(GivenBack(self._inbox.give_back()))
            case Call(number, name, arguments):
                self._answer(number, name, arguments)
            case CloseJob():
                self._inbox.close()

    def run(self, unpack: Callable[[], Job]) -> None:
        """Open the job and work until ``CloseJob`` comes; any error is sent, and ends the work."""
        doing = "it cannot be opened"
        try:
            self._open = opened = unpack()()
            self._outbox.follow(opened.report)
            self._outbox.put(Opened(opened.facts))
            doing = "it failed"
            while self._inbox.any_waits():
                self._work(opened)
            with suppress(Exception):  # all results are sent: an error now must not look like one of the work
                opened.close()
        except (Exception, SystemExit) as exc:  # noqa: BLE001 - a plug-in may raise anything
            self._outbox.put(Raised.of(exc, doing))
        self._outbox.end()

    def _work(self, opened: OpenJob) -> None:
        under_way = self._inbox.under_way
        for number, result in opened.work(self._inbox):
            if number not in under_way:
                raise BackendError("it answered a request that was not waiting")
            under_way.remove(number)
            self._outbox.add(number, result)
        if under_way:
            raise BackendError(f"{len(under_way)} requests were taken and never answered")
        self._outbox.put(ItemResults((), opened.report()))

    def _answer(self, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        try:
            value = self._open.call(name, *arguments) if self._open is not None else None
        except Exception as exc:  # noqa: BLE001 - a plug-in may raise anything
            value = Raised.of(exc, f"{name} failed")
        self._outbox.put(CallAnswer(number, value))
