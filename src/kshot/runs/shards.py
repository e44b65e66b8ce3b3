"""Which samples of a run belong to one of its shards: the same ones on every machine, whatever the others do."""

from __future__ import annotations

import sys
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Any

from kshot.core.settings import Shard
from kshot.core.task import Task
from kshot.core.watcher import PlannedTask
from kshot.runs.swept_rows import BASE

_LONGEST_PIECE = 32
"""Samples that stay together at most: neighbours often share the beginning of their prompts."""
_PIECES_EACH = 4
"""A shard has about so many pieces or more: then shards get equal parts of easy and of hard tasks."""


@dataclass(slots=True)
class Part:
    """The samples of one task that belong to a shard, by their positions. Pieces are dealt to the shards in turn."""

    shard: Shard
    piece: int
    """How many neighbours stay together."""
    first: int
    """The number of the task's first piece among those of the run."""
    passed: int = 0
    """The samples that ``take`` has seen."""

    def take(self, position: int) -> bool:
        """Whether the sample at this position belongs to the shard; it counts as seen."""
        self.passed = max(self.passed, position + 1)
        return position in self

    def __contains__(self, position: int) -> bool:
        return (self.first + position // self.piece) % self.shard.of == self.shard.number - 1

    @property
    def next(self) -> int:
        """The number of the piece after those that were seen."""
        return self.first - (-self.passed // self.piece)


class Split:
    """Deals the samples of a run to its shards, task by task.

    Tasks with the same samples (those of a sweep, of several draws, models or ways to cut passages) are split in the
    same way, so that what they ask alike is asked once. A task whose answers are finished together stays whole.
    """

    def __init__(self, shard: Shard, planned: Sequence[PlannedTask] | None) -> None:
        """Take the shard, and all tasks of the run as far as they are known."""
        self._shard = shard
        self.samples = sum({task.task: task.total or 0 for task in planned or ()}.values())
        """How many samples were planned: the length of the pieces depends on it."""
        self._first: dict[str, int] = {}
        self._last: Part | None = None

    def part(self, task: Task[Any]) -> Part:
        """Return the part of the next task; the tasks before it have passed."""
        following = 0 if self._last is None else self._last.next
        labels = task.labels
        alike = str(labels.get("benchmark") or labels.get(BASE) or labels.get("of") or task.name)
        known = self._first.get(alike)
        found = Part(self._shard, self._piece(task), following if known is None else known)
        if known is None:
            self._first[alike] = following
            self._last = found
        return found

    def _piece(self, task: Task[Any]) -> int:
        if task.finish is not None:
            return sys.maxsize
        samples = self.samples or (len(task.samples) if isinstance(task.samples, Sized) else 0)
        return max(1, min(_LONGEST_PIECE, samples // (self._shard.of * _PIECES_EACH)))


def size_of(task: Task[Any], part: Part | None) -> int | None:
    """Return how many samples a run asks of a task, as far as it is known before they are read."""
    if not isinstance(task.samples, Sized):
        return None
    size = len(task.samples)
    return size if part is None else sum(position in part for position in range(size))
