"""The engine drives methods. It bounds the live samples, asks equal requests once, and stores answers before use.

It is one loop in one thread. Each role has a backend, a queue, and one live stream: the backend pulls from its queue
and yields answers in any order. The engine stores each answer and resumes the methods that wait for it; what they ask
next joins the queues that the backends still pull from. Backends that work in the background overlap with all others.
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from kshot.core.budget import Budget
from kshot.core.content import needs
from kshot.core.errors import BackendError
from kshot.core.memo import Memo
from kshot.core.postponed import Postponed, RequestsPostponed
from kshot.core.protocols import Abilities, Backend, LanguageModel
from kshot.core.records import (
    AskFailed,
    Failed,
    Outcome,
    Request,
    RequestGenerator,
    Response,
    Search,
    resume,
    with_ticket,
)
from kshot.core.serialization import digest, key
from kshot.core.validation import (
    check_media,
    check_requests,
    checked_response,
    oversized,
    responses_of,
    works_in_background,
)


class RoleStream:
    """The backend of one role, its queue, and its answers. It is the ``RequestQueue`` that the backend sees.

    ``unanswered`` counts the requests that wait to be taken or are under way. Of one that is ``halted``, the backend
    gets no more.
    """

    def __init__(
        self,
        backend: Backend,
        admit: Callable[[Callable[[], bool]], None],
        all_unanswered: Callable[[], int],
        news: threading.Event,
        *,
        role: str,
        budget: Budget,
    ) -> None:
        """Take the backend, and what the engine offers.

        ``admit`` starts samples until a condition holds, and raises nothing; ``all_unanswered`` counts the open
        requests of all roles; ``news`` wakes the engine; ``budget`` says how many requests may start.
        """
        self.backend = backend
        self._admit, self._all_unanswered, self._news = admit, all_unanswered, news
        self._role, self._budget = role, budget
        abilities = getattr(backend, "abilities", None)  # a plug-in may be any object
        known = abilities if isinstance(abilities, Abilities) else Abilities()
        self.workers, self._tries = known.workers, known.tries
        if self._tries is not None:
            self._tries.sent = partial(budget.sent, role)
        self.in_background = works_in_background(backend)
        self.unanswered = 0
        self.halted = False
        self._waiting: deque[Request] = deque()
        self._answers: Generator[tuple[Request, Response] | None] | None = None
        self._has_answered = False

    # ---- for the backend ----

    def take(self, at_most: int | None = None) -> list[Request]:
        """Remove and return the waiting requests: all of them, or at most this many."""
        self._admit(lambda: at_most is not None and len(self._waiting) >= at_most)
        if self.halted:
            return []
        wanted = len(self._waiting) if at_most is None else min(at_most, len(self._waiting))
        started = self._budget.start(self._role, wanted, sent=self._tries is None)
        return [self._waiting.popleft() for _ in range(started)]

    def __iter__(self) -> Iterator[Request]:
        """Take requests one by one until none waits."""
        while taken := self.take(1):
            yield taken[0]

    @property
    def more_expected(self) -> bool:
        """Whether requests of other roles are open, whose answers may lead to more requests meanwhile."""
        return self.in_background and self._all_unanswered() > self.unanswered

    def notify(self) -> None:
        """Wake the engine."""
        self._news.set()

    # ---- for the engine ----

    @property
    def waits(self) -> bool:
        """Whether requests wait to be taken, and may be."""
        return bool(self._waiting) and not self.halted and self._budget.may_start(self._role)

    @property
    def at_rest(self) -> bool:
        """Whether no request is under way."""
        return self.unanswered == len(self._waiting)

    @property
    def live(self) -> bool:
        """Whether the backend is serving."""
        return self._answers is not None

    def add(self, request: Request) -> None:
        """Queue a request."""
        self._waiting.append(request)
        self.unanswered += 1

    def next_answer(self) -> tuple[Request, Response] | None:
        """Return the next answer; None if there is none now, or if the backend has answered all that it took."""
        before = len(self._waiting)
        if self._answers is None:
            self._answers, self._has_answered = responses_of(self.backend, self), False
        try:
            answer = next(self._answers)
            self._has_answered |= answer is not None
        except StopIteration:
            answer, self._answers = None, None
        if self._answers is not None:
            return answer
        if taken := self.unanswered - len(self._waiting):
            raise BackendError(f"{taken} requests were taken and never answered", where=self.backend.name)
        if before and len(self._waiting) >= before and not self._has_answered and self.waits:
            raise BackendError(f"it took none of {before} waiting requests", where=self.backend.name)
        return None

    def close(self) -> None:
        """End the work of the backend."""
        if self._answers is not None:
            self._answers.close()


WINDOW_SAMPLES = 1024
"""Samples that are live at one time; this bounds memory, whatever the size of the dataset."""

BACKLOG_WINDOWS = 16
"""Finished samples may wait for a slower sample before them, up to this many windows."""

_ANSWERS_IN_A_ROW = 16
"""Answers that one stream may give before the streams of background backends have their turn."""

_POLL_SECONDS = 0.5
"""How long the engine waits before it asks the streams again, in case that a backend does not notify it."""

_GC_THRESHOLD_OBJECTS = 20_000
"""New objects between two runs of the garbage collector."""


class SampleJob(NamedTuple):
    """A sample, the method that asks for it, and what makes a second method from the outcome of the first.

    While some samples are in their first method, others are in their second. The outcome of the second one is given to
    the caller; its ``item`` is the outcome of the first.
    """

    item: Any
    method: RequestGenerator
    then: Callable[[Outcome[Any]], RequestGenerator] | None = None


@dataclass(slots=True)
class _LiveSample:
    """A sample whose method is under way; ``then`` makes the method that follows."""

    index: int
    item: Any
    method: RequestGenerator
    then: Callable[[Outcome[Any]], RequestGenerator] | None = None
    exchanges: list[tuple[Request, Response]] = field(default_factory=list)
    responses: list[Response] | None = None
    """The responses to its latest requests; None before the first."""
    missing: int = 0
    postponed: bool = False
    """Whether a later call answers some of its latest requests."""
    waited: bool = False
    """Whether it has asked something that was not stored."""


class _OpenRequest(NamedTuple):
    """A request that is queued or under way, its address and digest, and the samples that wait for it."""

    request: Request
    address: str
    digest: str
    waiters: list[tuple[_LiveSample, int]]


class _Engine:
    def __init__(
        self,
        jobs: Iterable[SampleJob | tuple[Any, RequestGenerator]],
        backends: Mapping[str, Backend],
        memo: Memo,
        window: int,
        *,
        budget: Budget,
    ) -> None:
        self._news = threading.Event()
        self._jobs = iter(jobs)
        self._memo = memo
        self._budget = budget
        self._exhausted = False
        self._fault: Exception | None = None
        """What keeps further samples from starting; it is raised when all that is under way is answered and stored."""
        self._live = 0
        self._admitted = 0
        self._emitted = 0
        self._finished: dict[int, Outcome[Any] | None] = {}  # None: a later call goes on with this sample
        self._tickets = count(1)
        self._open: dict[int, _OpenRequest] = {}  # by ticket
        self._by_address: dict[str, _OpenRequest] = {}
        self._postponed: set[str] = set()  # addresses
        self._streams = {
            role: RoleStream(backend, self._admit, lambda: len(self._open), self._news, role=role, budget=budget)
            for role, backend in backends.items()
        }
        self._window = window * max((stream.workers for stream in self._streams.values()), default=1)
        self._background = [stream for stream in self._streams.values() if stream.in_background]
        self._blocking = [stream for stream in self._streams.values() if not stream.in_background]

    def run(self) -> Iterator[Outcome[Any]]:
        with ExitStack() as stack:
            stack.callback(self._close_samples)
            for stream in self._streams.values():
                stack.callback(stream.close)
            while True:
                self._admit(lambda: self._emitted in self._finished or any(s.waits for s in self._streams.values()))
                yield from self._emit()
                if self._is_over():
                    return
                self._news.clear()
                answered = False
                for stream in self._background:
                    answered |= yield from self._serve(stream, _ANSWERS_IN_A_ROW)
                # One that computes in this thread goes on to its end: then the next one finds the largest batches.
                busy = next((s for s in self._blocking if s.live), None) or next(
                    (s for s in self._blocking if s.waits), None
                )
                if busy is not None:
                    yield from self._serve(busy, 1 if self._background else _ANSWERS_IN_A_ROW)
                elif not answered and any(s.live for s in self._background):
                    self._news.wait(_POLL_SECONDS)

    def _is_over(self) -> bool:
        """Whether every sample is done; what ends the run early is raised when all that was under way is stored."""
        complete = self._exhausted and not self._live
        if not complete and not (self._open and all(s.at_rest and not s.waits for s in self._streams.values())):
            return False
        if self._fault is not None:
            raise self._fault
        if self._postponed:
            raise RequestsPostponed
        if self._budget.refused or not complete:
            raise self._budget.reached()
        return True

    def _serve(self, stream: RoleStream, at_most: int) -> Generator[Outcome[Any], None, bool]:
        """Use the answers that a stream has now; return whether there was one."""
        if not stream.live and not stream.waits:
            return False
        for number in range(at_most):
            answer = stream.next_answer()
            if answer is None:
                return number > 0
            self._answered(stream, *answer)
            yield from self._emit()
        return True

    def _close_samples(self) -> None:
        """Close the methods that wait and the iterator of jobs: what they have open ends now."""
        waiting = [job.method for entry in self._open.values() for job, _ in entry.waiters]
        for opened in (*waiting, self._jobs):
            _close(opened)

    def _emit(self) -> Iterator[Outcome[Any]]:
        while self._emitted in self._finished:
            outcome = self._finished.pop(self._emitted)
            self._emitted += 1
            if outcome is not None:
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
                job = SampleJob(*next(self._jobs))
            except StopIteration:
                self._exhausted = True
                return
            except Exception as exc:  # noqa: BLE001 - it is raised later
                self._halt(exc)
                return
            self._start(job)

    def _start(self, job: SampleJob) -> None:
        """Start a sample; an error of its prompt or its scores keeps further ones from starting."""
        live = _LiveSample(self._admitted, *job)
        self._admitted += 1
        self._live += 1
        try:
            self._resume(live)
        except Exception as exc:  # noqa: BLE001 - it is raised later
            self._live -= 1
            self._halt(exc)

    def _halt(self, fault: Exception) -> None:
        """Ask nothing more."""
        self._fault, self._exhausted = fault, True
        for stream in self._streams.values():
            stream.halted = True

    def _resume(self, job: _LiveSample) -> None:
        """Advance a sample until it waits for a backend or is done."""
        while True:
            try:
                requests = next(job.method) if job.responses is None else resume(job.method, job.responses)
                check_requests(requests, job.method)
            except StopIteration as stop:
                answer = stop.value
            except AskFailed as exc:
                answer = exc.failed
            else:
                if self._ask(job, requests):
                    return
                continue
            outcome = Outcome(job.item, answer, tuple(job.exchanges), not job.waited and bool(job.exchanges))
            if job.then is None:
                self._live -= 1
                self._finished[job.index] = outcome
                return
            job = _LiveSample(job.index, outcome, job.then(outcome))

    def _ask(self, job: _LiveSample, requests: Sequence[Request]) -> bool:
        """Look each request up in the memo, or queue it; return whether the sample cannot go on now."""
        job.responses = [_OPEN] * len(requests)
        job.missing = 0
        for slot, request in enumerate(requests):
            stream = self._route(request)
            content = digest(request)
            address = key(stream.backend.fingerprint, content)
            response: Response = _OPEN
            if address in self._postponed:
                job.postponed = True
            elif (earlier := self._by_address.get(address)) is not None:
                earlier.waiters.append((job, slot))
                job.missing += 1
            elif (known := self._known(request, address) or oversized(request)) is not None:
                response = known
            else:
                ticket = next(self._tickets)
                entry = _OpenRequest(request, address, content, [(job, slot)])
                self._open[ticket] = self._by_address[address] = entry
                stream.add(with_ticket(request, ticket))
                job.missing += 1
            job.responses[slot] = response
            job.exchanges.append((request, response))
        if not job.missing:
            if job.postponed:
                self._leave(job)
            return job.postponed
        job.waited = True
        return True

    def _leave(self, job: _LiveSample) -> None:
        """Let go of a sample that a later call goes on with: the answers that it has are stored, and found then."""
        _close(job.method)
        self._live -= 1
        self._finished[job.index] = None

    def _known(self, request: Request, address: str) -> Response | None:
        """Return the stored response. One that cannot answer the request is damaged, so the request is asked again."""
        stored = self._memo.get(address)
        with suppress(BackendError):
            return None if stored is None else checked_response(request, stored, "the journal")
        return None

    def _answered(self, stream: RoleStream, request: Request, response: Response) -> None:
        entry = self._open.get(request.ticket)
        if entry is None or self._streams[entry.request.role] is not stream:
            raise BackendError(
                "it answered a request that was not waiting",
                where=stream.backend.name,
                hint="Yield the request that was taken, once, or a copy that has its ticket.",
            )
        postponed = isinstance(response, Postponed)
        if postponed:
            self._postponed.add(entry.address)
        else:
            response = checked_response(entry.request, response, stream.backend.name)
            self._memo.put(entry.address, entry.digest, response)
            self._budget.answered(entry.request.role, entry.request, response, stream.backend.name)
        del self._open[request.ticket], self._by_address[entry.address]
        stream.unanswered -= 1
        for job, slot in entry.waiters:
            assert job.responses is not None  # noqa: S101 - it has asked
            job.responses[slot] = response
            at = len(job.exchanges) - len(job.responses) + slot
            job.exchanges[at] = (job.exchanges[at][0], response)
            job.missing -= 1
            job.postponed |= postponed
            if not job.missing:
                self._leave(job) if job.postponed else self._resume(job)

    def _route(self, request: Request) -> RoleStream:
        stream = self._streams.get(request.role)
        verb = type(request).__name__
        if stream is None:
            raise BackendError(
                f"no model of this run has the role {request.role!r}, which {verb} requests need",
                hint=_HINTS.get(request.role, ""),
            )
        if not isinstance(request, stream.backend.answers):
            able = ", ".join(kind.__name__ for kind in stream.backend.answers)
            raise BackendError(
                f"it cannot answer {verb} requests, only {able}", where=stream.backend.name, hint=_HINTS.get(verb, "")
            )
        if not isinstance(request, Search) and (media := request.prompt.media):
            backend = stream.backend
            able_to_read = backend.abilities.media if isinstance(backend, LanguageModel) else frozenset()
            check_media(needs(media), able_to_read, backend.name)
        return stream


def _close(opened: Any) -> None:
    """Close a generator: what it has open ends now."""
    if isinstance(opened, Generator):
        with suppress(Exception):  # the error that ends the run, if there is one, is the one to show
            opened.close()


_OPEN = Failed("open", "not answered yet")

_HINTS = {
    "judge": "Name the judging model with --judge MODEL.",
    "Loglik": "Ask by generation instead: --ranking-type generation, or a config that generates.",
}


def drive(
    jobs: Iterable[SampleJob | tuple[Any, RequestGenerator]],
    backends: Mapping[str, Backend],
    memo: Memo,
    *,
    window: int = WINDOW_SAMPLES,
    budget: Budget | None = None,
) -> Generator[Outcome[Any]]:
    """Drive the method of every job to its end; yield the outcomes in the order of the jobs, as early as possible.

    Closing this generator closes what the backends have open. If a sample cannot be started, or at a limit of the
    ``budget``, what is under way is still answered and stored before the error or ``LimitReached`` is raised.
    """
    with _rare_collections():
        yield from _Engine(jobs, backends, memo, window, budget=budget or Budget()).run()


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
