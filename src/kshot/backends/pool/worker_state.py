"""What the dispatcher knows of one worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

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

    def placed(self, where: str) -> None:
        """Note where it runs."""
        self.where = where

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
