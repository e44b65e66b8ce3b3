"""The engine drives methods. It bounds the live samples, asks equal requests once, and stores answers before use.

It is one loop in one thread. A backend pulls from its queue and yields answers in any order. The engine stores each
answer and resumes the methods that wait for it; what they ask next joins the queue that the backend still pulls from.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from kshot.core.errors import BackendError
from kshot.core.protocols import Backend
from kshot.core.records import AskFailed, Failed, Outcome, Request, RequestGenerator, Response
from kshot.core.serialization import digest, key
from kshot.core.validation import checked_response, responses_of

T = TypeVar("T")

WINDOW_SAMPLES = 1024
"""Samples that are live at one time; this bounds memory, whatever the size of the dataset."""

BACKLOG_WINDOWS = 16
"""Finished samples may wait for a slower sample before them, up to this many windows."""

_GC_THRESHOLD_OBJECTS = 20_000
"""New objects between two runs of the garbage collector."""


class Memo(Protocol):
    """Responses by content address: a run's journal, or a dict in memory."""

    def get(self, key: str, /) -> Response | None:
        """Return the stored response, if there is one to use."""
        ...

    def put(self, key: str, asked: str, response: Response, /) -> None:
        """Store a response; when this returns, it survives a crash."""
        ...


class MemoryMemo:
    """A memo for runs without a folder. It does not store failures: they are asked again."""

    def __init__(self) -> None:
        self._held: dict[str, Response] = {}

    def get(self, key: str) -> Response | None:
        """Return the stored response."""
        return self._held.get(key)

    def put(self, key: str, asked: str, response: Response) -> None:  # noqa: ARG002 - only the journal needs ``asked``
        """Store a response for as long as the process lives."""
        if not isinstance(response, Failed):
            self._held[key] = response


@dataclass(slots=True)
class _LiveSample(Generic[T]):
    """A sample whose method is under way."""

    index: int
    item: T
    method: RequestGenerator
    exchanges: list[tuple[Request, Response]] = field(default_factory=list)
    pending: list[Response | None] = field(default_factory=list)
    missing: int = 0


class _Queue:
    """Requests that wait for one backend; ``refill`` starts more samples until the queue holds enough requests."""

    def __init__(self, refill: Callable[[Callable[[], bool]], None]) -> None:
        self._waiting: deque[Request] = deque()
        self._refill = refill

    def add(self, request: Request) -> None:
        self._waiting.append(request)

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, at_most: int | None = None) -> list[Request]:
        self._refill(lambda: at_most is not None and len(self._waiting) >= at_most)
        if at_most is None:
            at_most = len(self._waiting)
        return [self._waiting.popleft() for _ in range(min(at_most, len(self._waiting)))]

    def __iter__(self) -> Iterator[Request]:
        while taken := self.take(1):
            yield taken[0]


class _Engine(Generic[T]):
    def __init__(
        self, jobs: Iterable[tuple[T, RequestGenerator]], backends: Mapping[str, Backend], memo: Memo, window: int
    ) -> None:
        self._jobs = enumerate(jobs)
        self._backends = backends
        self._memo = memo
        self._window = window
        self._exhausted = False
        self._live = 0
        self._admitted = 0
        self._emitted = 0
        self._finished: dict[int, Outcome[T]] = {}
        self._waiters: dict[str, list[tuple[_LiveSample[T], int]]] = {}
        self._asked: dict[int, tuple[str, str]] = {}  # id of a waiting request → its address and digest
        self._queues = {role: _Queue(self._admit) for role in backends}

    def run(self) -> Iterator[Outcome[T]]:
        while True:
            self._admit(lambda: self._emitted in self._finished or any(self._queues.values()))
            yield from self._emit()
            busy = next((role for role, queue in self._queues.items() if queue), None)
            if busy is None:
                if self._waiters:
                    raise BackendError(
                        f"{len(self._waiters)} requests were taken and never answered", where=self._names()
                    )
                if self._exhausted:
                    return
                continue
            backend, queue = self._backends[busy], self._queues[busy]
            waiting, answered = len(queue), 0
            for request, response in responses_of(backend, queue):
                self._answered(backend, request, response)
                answered += 1
                yield from self._emit()
            if not answered and len(queue) >= waiting:
                raise BackendError(f"it took none of {waiting} waiting requests", where=backend.name)

    def _emit(self) -> Iterator[Outcome[T]]:
        while (outcome := self._finished.pop(self._emitted, None)) is not None:
            self._emitted += 1
            yield outcome

    def _admit(self, enough: Callable[[], bool]) -> None:
        """Start samples within the window until there are enough, so that requests do not wait for other prompts."""
        while (
            not self._exhausted
            and not enough()
            and self._live < self._window
            and self._admitted - self._emitted < self._window * BACKLOG_WINDOWS
            and not (self._emitted in self._finished and len(self._finished) >= self._window)
        ):
            try:
                index, (item, method) = next(self._jobs)
            except StopIteration:
                self._exhausted = True
                return
            self._admitted += 1
            self._live += 1
            self._resume(_LiveSample(index, item, method), lambda job: next(job.method))

    def _resume(self, job: _LiveSample[T], step: Callable[[_LiveSample[T]], Sequence[Request]]) -> None:
        """Advance a method until it waits for a backend or is done."""
        while True:
            try:
                requests = step(job)
            except StopIteration as stop:
                return self._done(job, stop.value)
            except AskFailed as exc:
                return self._done(job, exc.failed)
            if self._ask(job, requests):
                return None
            step = _hand_over

    def _ask(self, job: _LiveSample[T], requests: Sequence[Request]) -> bool:
        """Look each request up in the memo, or queue it; return whether any is still open."""
        job.pending = [None] * len(requests)
        job.missing = 0
        for slot, request in enumerate(requests):
            backend = self._route(request)
            asked = digest(request)
            address = key(backend.fingerprint, asked)
            if (waiters := self._waiters.get(address)) is not None:
                waiters.append((job, slot))
            elif (known := self._memo.get(address)) is not None:
                known = checked_response(request, known, backend.name)
                job.pending[slot] = known
                job.exchanges.append((request, known))
                continue
            else:
                self._waiters[address] = [(job, slot)]
                self._asked[id(request)] = (address, asked)
                self._queues[request.role].add(request)
            job.missing += 1
            job.exchanges.append((request, _OPEN))
        return job.missing > 0

    def _answered(self, backend: Backend, request: Request, response: Response) -> None:
        address, asked = self._asked.pop(id(request), ("", ""))
        if not address:
            raise BackendError("it answered a request that was not waiting", where=backend.name)
        response = checked_response(request, response, backend.name)
        self._memo.put(address, asked, response)
        for job, slot in self._waiters.pop(address):
            job.pending[slot] = response
            at = len(job.exchanges) - len(job.pending) + slot
            job.exchanges[at] = (job.exchanges[at][0], response)
            job.missing -= 1
            if not job.missing:
                self._resume(job, _hand_over)

    def _names(self) -> str:
        return ", ".join(backend.name for backend in self._backends.values())

    def _route(self, request: Request) -> Backend:
        backend = self._backends.get(request.role)
        verb = type(request).__name__
        if backend is None:
            raise BackendError(
                f"no model of this run has the role {request.role!r}, which {verb} requests need",
                hint=_HINTS.get(request.role, ""),
            )
        if not isinstance(request, backend.answers):
            able = ", ".join(kind.__name__ for kind in backend.answers)
            raise BackendError(
                f"it cannot answer {verb} requests, only {able}", where=backend.name, hint=_HINTS.get(verb, "")
            )
        return backend

    def _done(self, job: _LiveSample[T], answer: Any) -> None:
        self._live -= 1
        self._finished[job.index] = Outcome(job.item, answer, tuple(job.exchanges))


_OPEN = Failed("open", "not answered yet")

_HINTS = {
    "judge": "Name the judging model with --judge MODEL.",
    "Loglik": "Ask by generation instead: --ranking-type generation.",
}


def _hand_over(job: _LiveSample[Any]) -> Sequence[Request]:
    """Send a method its responses, or raise its failure where it asked."""
    replies = job.pending
    failed = next((reply for reply in replies if isinstance(reply, Failed)), None)
    if failed is not None:
        requests: Sequence[Request] = job.method.throw(AskFailed(failed))
        return requests
    return job.method.send([reply for reply in replies if reply is not None])


def drive(
    jobs: Iterable[tuple[T, RequestGenerator]],
    backends: Mapping[str, Backend],
    memo: Memo,
    *,
    window: int = WINDOW_SAMPLES,
) -> Iterator[Outcome[T]]:
    """Drive the method of every job to its end; yield the outcomes in the order of the jobs, as early as possible."""
    with _rare_collections():
        yield from _Engine(jobs, backends, memo, window).run()


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Run the garbage collector rarely: repeated scans of older objects would take 15 % of a run."""
    before = gc.get_threshold()
    if not 0 < before[0] < _GC_THRESHOLD_OBJECTS or not gc.isenabled():  # the user has set it
        yield
        return
    frozen = gc.get_freeze_count() > _GC_THRESHOLD_OBJECTS  # the user froze objects: Python itself freezes only a few
    if not frozen:
        gc.freeze()
    gc.set_threshold(_GC_THRESHOLD_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:
            gc.unfreeze()
