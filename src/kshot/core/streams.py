"""One role of a run: requests that wait for its backend, and the stream of the backend's answers."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from functools import partial

from kshot.core.budget import Budget
from kshot.core.errors import BackendError
from kshot.core.protocols import Abilities, Backend
from kshot.core.records import Request, Response
from kshot.core.validation import responses_of, works_in_background


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
        return bool(self._waiting) and self._may_start()

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
        if before and self._may_start() and not self._has_answered and len(self._waiting) >= before:
            raise BackendError(f"it took none of {before} waiting requests", where=self.backend.name)
        return None

    def _may_start(self) -> bool:
        return not self.halted and self._budget.may_start(self._role)

    def close(self) -> None:
        """End the work of the backend."""
        if self._answers is not None:
            self._answers.close()
