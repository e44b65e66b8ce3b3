"""The dispatcher of a pool: it hands items to workers, takes results, and outlives the workers that die.

It is used by one thread. The threads of the launcher only fill its inbox.
"""

from __future__ import annotations

import queue
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import monotonic
from typing import Any, TypeAlias

from kshot.backends.pool.worker import (
    Begun,
    Call,
    CallAnswer,
    Died,
    Event,
    GiveBack,
    GivenBack,
    ItemResults,
    Job,
    Launcher,
    Opened,
    Placed,
    Raised,
    WaitsFor,
    WorkChunk,
)
from kshot.backends.texts import common_length
from kshot.core.errors import BackendError, KshotError

# ---- which item goes to which worker ----

_MIN_CUT_ITEMS = 8
"""Smaller chunks are not made smaller still for the sake of a better cut."""

_Place: TypeAlias = tuple[str, int]
"""Text and number of an item; a part begins at one."""

_FIRST: _Place = ("", -1)


class Routing:
    """The items that wait, and the part of each worker. It is pure: no clock, no thread, no process."""

    def __init__(self) -> None:
        self._items: list[_Place] = []
        self._parts: list[tuple[_Place, int]] = []  # where each begins, and its worker; the first begins before all
        self._cursors: dict[int, _Place] = {}  # the last item that each worker took

    def __len__(self) -> int:
        """Return how many items wait."""
        return len(self._items)

    def add(self, number: int, text: str) -> None:
        """Add an item: it joins the part where its text belongs."""
        insort(self._items, (text, number))

    def own(self, worker: int) -> int:
        """Return how many items wait in the part of a worker."""
        low, high = self._bounds(worker)
        return high - low

    def steal(self, worker: int) -> None:
        """Give a worker whose part is empty one half of the largest part, or all of it if it is a single item."""
        self.drop(worker)
        if not self._parts:
            self._parts = [(_FIRST, worker)]
            return
        edges = [bisect_left(self._items, start) for start, _ in self._parts] + [len(self._items)]
        sizes = [high - low for low, high in pairwise(edges)]
        at = max(range(len(sizes)), key=sizes.__getitem__)
        low, high = edges[at : at + 2]
        if low == high:
            return
        quarter = max(sizes[at] // 4, 1)
        place = self._items[self._cut(min(low + quarter, high - 1), high - quarter)]
        start, victim = self._parts[at]
        # The worker whose part this is goes on in the half where it is.
        ahead = self._items[low] < place <= self._cursors.get(victim, _FIRST)
        pair = (worker, victim) if ahead else (victim, worker)
        self._parts[at : at + 1] = [(start, pair[0]), (place, pair[1])]

    def take(self, worker: int, at_most: int) -> list[int]:
        """Remove and return the numbers of up to ``at_most`` neighbours: the next ones of the worker's own part.

        A worker goes on where it stopped, and begins again when it has come to the end of its part.
        """
        low, high = self._bounds(worker)
        if low == high:
            return []
        start = bisect_left(self._items, self._cursors.get(worker, _FIRST), low, high)
        start = low if start == high else start
        stop = min(start + at_most, high)
        if stop < high and at_most >= _MIN_CUT_ITEMS:
            stop = self._cut(stop - at_most // 4, stop)
        taken = self._items[start:stop]
        del self._items[start:stop]
        self._cursors[worker] = taken[-1]
        return [number for _, number in taken]

    def drop(self, worker: int) -> None:
        """Give the part of a worker to the one before it; the first part begins before all items."""
        self._parts = [part for part in self._parts if part[1] != worker]
        if self._parts:
            self._parts[0] = (_FIRST, self._parts[0][1])

    def clear(self) -> None:
        """Drop all items; the parts stay, because the workers may still have what they computed."""
        self._items.clear()

    def _bounds(self, worker: int) -> tuple[int, int]:
        """Return where the items of a worker begin and end."""
        for at, (start, owner) in enumerate(self._parts):
            if owner == worker:
                ends = self._parts[at + 1 : at + 2]
                return bisect_left(self._items, start), bisect_left(self._items, ends[0][0]) if ends else len(self)
        return 0, 0

    def _cut(self, low: int, high: int) -> int:
        """Return the place from ``low`` to ``high`` at which neighbours have the least in common.

        In a sorted list, that is where the first character changes in which the first and the last item differ. Of
        several such places, one of those around the middle item is taken.
        """
        if low >= high:
            return low
        first, last, middle = self._items[low - 1][0], self._items[high][0], (low + high) // 2
        length = common_length(first, last) + 1
        head = self._items[middle][0][:length]
        places = [
            find(self._items, head, low - 1, high + 1, key=lambda item: item[0][:length])
            for find in (bisect_left, bisect_right)
        ]
        fitting = [place for place in places if low <= place <= high]
        return min(fitting, key=lambda place: abs(place - middle), default=middle)


# ---- what the dispatcher knows of one worker ----

_MAX_CHUNK_ITEMS = 512
"""Large enough for the model to find what items have in common."""
_FIRST_CHUNK_ITEMS = 64
_CHUNK_SECONDS = 4.0
"""A chunk should take about so long: what a model computes cannot be given to another worker any more."""
_MIN_TIMED_ITEMS = 8
_RATE_SECONDS = 10.0


class WorkerState:
    """One worker: whether it is open, what it was sent and has not answered, and how fast it is."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.where = "not started"
        self.is_open = self.gone = self.alone = self.asked_back = False
        self.can_take = True
        self.sent: dict[int, None] = {}
        self.deaths = self.idle_deaths = 0
        self.report: Any = None
        self._earlier: list[Any] = []
        self._count = 0
        self._recent: deque[tuple[float, int]] = deque()

    @property
    def reports(self) -> list[Any]:
        """What the job has said of its work, in each life of the worker."""
        return [*self._earlier, self.report]

    def opened(self, now: float) -> None:
        """Note that it can work."""
        self.is_open, self.can_take = True, True
        self._recent.clear()
        self._recent.append((now, self._count))

    def died(self, *, had_work: bool) -> None:
        """Note that it is gone; ``had_work``: a request may have killed it."""
        self.deaths += 1
        self.idle_deaths = 0 if had_work else self.idle_deaths + 1
        self.is_open = self.alone = self.asked_back = False
        self.sent.clear()
        self._earlier.append(self.report)
        self.report = None

    def send(self, numbers: Sequence[int], *, alone: bool) -> None:
        """Note what it is sent; what is sent ``alone`` has no neighbours until it is answered."""
        self.sent.update(dict.fromkeys(numbers))
        self.can_take, self.alone, self.asked_back = False, alone, False

    def answered(self, now: float) -> None:
        """Count a result that came just now."""
        self._count += 1
        self.idle_deaths = 0
        if not self.sent:
            self.alone = False
        if now > self._recent[-1][0]:
            self._recent.append((now, self._count))
        while len(self._recent) > 2 and now - self._recent[1][0] >= _RATE_SECONDS:  # noqa: PLR2004 - two make a rate
            self._recent.popleft()

    @property
    def rate(self) -> float | None:
        """Results per second of late; None before the first."""
        if len(self._recent) < 2:  # noqa: PLR2004 - two points make a rate
            return None
        (began, first), (latest, last) = self._recent[0], self._recent[-1]
        return (last - first) / (latest - began)

    def chunk_size(self, own: int, workers: int) -> int:
        """Return how many of its ``own`` waiting items it is sent next.

        One of several workers gets half of them at most, and what it does in a few seconds: the rest may be stolen.
        """
        if workers == 1:
            return _MAX_CHUNK_ITEMS
        rate = self.rate
        timed = _FIRST_CHUNK_ITEMS if rate is None else max(_MIN_TIMED_ITEMS, int(rate * _CHUNK_SECONDS))
        return max(1, min(_MAX_CHUNK_ITEMS, timed, (own + 1) // 2))

    def activity(self) -> str:
        """Say in a word what it does."""
        if self.gone:
            return "gone"
        if not self.is_open:
            return "starting"
        return "idle" if not self.sent else "…" if self.rate is None else f"{self.rate:.3g}/s"


# ---- all workers ----

MAX_DEATHS = 3
"""A request that was there when so many workers died is not asked again, and a worker that dies so often in a row
without any work is not started again."""

_NOWHERE = -1
"""Stands for the worker of a call that no worker could be asked yet."""

_WAIT_SECONDS = 1.0
"""How long the dispatcher waits for an event before it looks again: a signal may have come."""


@dataclass(slots=True)
class _Item:
    """A piece of work, the text that it is routed by, and how many workers died with it."""

    payload: Any
    text: str
    deaths: int = 0


@dataclass(frozen=True, slots=True)
class Lost:
    """Stands for the result of an item with which ``MAX_DEATHS`` workers died; ``reason``: how the last one did."""

    reason: str


_Result: TypeAlias = tuple[Any, Any]
"""The payload of an item, and its result."""


class Dispatcher:
    """A pool of workers that have one job.

    ``tell`` shows a line to the user; in messages, ``where`` names the job, and ``again`` is what happens to the items
    that a dead worker had.
    """

    def __init__(
        self,
        launcher: Launcher,
        job: Job,
        workers: int,
        *,
        where: str,
        tell: Callable[[str], None] = lambda _: None,
        again: str = "requests to ask again",
    ) -> None:
        """Start the workers; ``facts`` waits for the first of them."""
        self._launcher, self._where, self._tell, self._again = launcher, where, tell, again
        self._inbox: queue.SimpleQueue[tuple[int, Sequence[Event]]] = queue.SimpleQueue()
        self.notify: Callable[[], None] = lambda: None
        self.workers = [WorkerState(number) for number in range(workers)]
        self._routing = Routing()
        self._items: dict[int, _Item] = {}  # all that are not answered, by number
        self._suspects: deque[int] = deque()
        self._results: deque[_Result] = deque()
        self._open_calls: dict[int, tuple[int, Call]] = {}  # not answered, by number, with the worker
        self._answers: dict[int, Any] = {}
        self._number = self._calls = 0
        self._facts: Any = None
        self._error: KshotError | None = None
        self.deaths = 0
        try:
            launcher.start(job, workers, self._report)
        except BaseException:
            launcher.close(())
            raise

    def _report(self, worker: int, events: Sequence[Event]) -> None:
        """Take events; called by the threads of the launcher."""
        self._inbox.put((worker, events))
        self.notify()

    # ---- what the owner asks ----

    def facts(self) -> Any:
        """Return what the job says of itself; wait until a worker has opened it."""
        self._until(lambda: any(worker.is_open for worker in self.workers))
        return self._facts

    def call(self, name: str, *arguments: Any) -> Any:
        """Ask a worker something beside its work, and wait for the answer."""
        self.facts()
        self._calls += 1
        self._ask(Call(self._calls, name, arguments))
        number = self._calls
        self._until(lambda: number in self._answers)
        value = self._answers.pop(number)
        if isinstance(value, Raised):
            raise value.error(self._where)
        return value

    def add(self, payload: Any, text: str) -> None:
        """Take an item; ``text`` decides which worker gets it."""
        self._number += 1
        self._items[self._number] = _Item(payload, text)
        self._routing.add(self._number, text)

    @property
    def unanswered(self) -> int:
        """The items whose results have not been given out."""
        return len(self._items) + len(self._results)

    @property
    def waiting(self) -> int:
        """The items that no worker has."""
        return len(self._routing)

    def step(self) -> Iterator[_Result]:
        """Take the events that are there, hand out work, and give out the results; an error comes after them."""
        while not self._inbox.empty():
            self._handle(*self._inbox.get())
        if self._error is None:
            self._dispatch()
        while self._results:
            yield self._results.popleft()
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        """Forget all items; what workers still compute of them is thrown away."""
        self._routing.clear()
        self._suspects.clear()
        self._results.clear()
        self._items.clear()

    def close(self) -> None:
        """End the workers; those that compute something are not waited for."""
        self.notify = lambda: None
        self._launcher.close([worker.number for worker in self.workers if worker.is_open and not worker.sent])

    def reports(self) -> list[Any]:
        """Return the last report of each worker, those of earlier lives included."""
        return [report for worker in self.workers for report in worker.reports if report is not None]

    # ---- events ----

    def _until(self, done: Callable[[], bool]) -> None:
        """Handle events until something is true; an error ends it."""
        while not done():
            if self._error is not None:
                raise self._error
            try:
                self._handle(*self._inbox.get(timeout=_WAIT_SECONDS))
            except queue.Empty:
                continue

    def _handle(self, number: int, events: Sequence[Event]) -> None:
        worker = self.workers[number]
        for event in events:
            match event:
                case Begun() | ItemResults() | GivenBack() | CallAnswer():
                    self._handle_work(worker, event)
                case WaitsFor(what):
                    self._tell(f"worker {number + 1} of {len(self.workers)} waits for {what}")
                case Placed(where):
                    worker.where = where
                case Opened(facts):
                    self._opened(worker, facts)
                case Raised():
                    worker.gone = True
                    self._error = self._error or event.error(self._where)
                case Died(reason):
                    self._died(worker, reason)

    def _handle_work(self, worker: WorkerState, event: Begun | ItemResults | GivenBack | CallAnswer) -> None:
        match event:
            case Begun():
                worker.can_take = True
            case ItemResults(results, report):
                self._take(worker, results, report)
            case GivenBack(numbers):
                for number in numbers:
                    worker.sent.pop(number, None)
                    if number in self._items:
                        self._routing.add(number, self._items[number].text)
            case CallAnswer(number, value):
                if self._open_calls.pop(number, None) is not None:
                    self._answers[number] = value

    def _opened(self, worker: WorkerState, facts: Any) -> None:
        if self._facts is None:
            self._facts = facts
        elif facts != self._facts:
            what = f"worker {worker.number + 1} ({worker.where}) has another model than the others"
            hint = "Machines must have the same files and the same versions of packages."
            self._error = BackendError(what, where=self._where, hint=hint)
        worker.opened(monotonic())
        self._ask_again(_NOWHERE)

    def _take(self, worker: WorkerState, results: Sequence[tuple[int, Any]], report: Any) -> None:
        worker.report = report
        for number, result in results:
            worker.sent.pop(number, None)
            worker.answered(monotonic())
            if (item := self._items.pop(number, None)) is not None:  # else it was forgotten meanwhile
                self._results.append((item.payload, result))

    def _died(self, worker: WorkerState, reason: str) -> None:
        """Have others do what a worker had not done; each of it may have killed the worker."""
        self.deaths += 1
        lost = [number for number in worker.sent if number in self._items]
        for number in lost:
            item = self._items[number]
            item.deaths += 1
            if item.deaths >= MAX_DEATHS:
                del self._items[number]
                self._results.append((item.payload, Lost(reason)))
            else:
                self._suspects.append(number)
        worker.died(had_work=bool(lost))
        self._routing.drop(worker.number)
        self._ask_again(worker.number)
        if self._facts is None and self.deaths >= MAX_DEATHS:
            self._error = BackendError(f"no worker could open it: {reason}", where=self._where)
            return
        name = f"worker {worker.number + 1} of {len(self.workers)} ({worker.where})"
        if worker.idle_deaths >= MAX_DEATHS:
            worker.gone = True
            if all(each.gone for each in self.workers):
                self._error = BackendError(f"all workers have died: {reason}", where=self._where)
            self._tell(f"{name} died {MAX_DEATHS} times without any work, and is not started again: {reason}")
            return
        again = f"; {self._again}, one by one: {len(lost):,}" if lost else ""
        self._tell(f"{name} died and starts again: {reason}{again}")
        self._launcher.restart(worker.number)

    def _ask(self, call: Call) -> None:
        """Send a call to the worker that has least to do; it is sent again if the worker dies."""
        able = [worker for worker in self.workers if worker.is_open]
        number = min(able, key=lambda worker: len(worker.sent)).number if able else _NOWHERE
        self._open_calls[call.number] = number, call
        if able:
            self._launcher.send(number, call)

    def _ask_again(self, worker: int) -> None:
        """Send the calls again that this worker has not answered."""
        for where, call in list(self._open_calls.values()):
            if where == worker:
                self._ask(call)

    # ---- handing out ----

    def _dispatch(self) -> None:
        able = [worker for worker in self.workers if worker.is_open]
        for worker in able:
            if not worker.sent and self._suspects:
                self._send(worker, [self._suspects.popleft()], alone=True)
            elif (worker.can_take or not worker.sent) and not worker.alone:
                if not worker.sent and not self._routing.own(worker.number) and self._routing:
                    self._routing.steal(worker.number)
                own = self._routing.own(worker.number)
                if own:
                    self._send(worker, self._routing.take(worker.number, worker.chunk_size(own, len(self.workers))))
        if not self._routing and any(not worker.sent for worker in able):
            self._ask_back(able)

    def _send(self, worker: WorkerState, numbers: Sequence[int], *, alone: bool = False) -> None:
        worker.send(numbers, alone=alone)
        self._launcher.send(
            worker.number, WorkChunk(tuple((number, self._items[number].payload) for number in numbers))
        )

    def _ask_back(self, able: Sequence[WorkerState]) -> None:
        """Have the worker that has most give some back: another one has nothing to do."""
        most = max(able, key=lambda worker: len(worker.sent))
        if len(most.sent) > 1 and not most.asked_back:
            most.asked_back = True
            self._launcher.send(most.number, GiveBack())
