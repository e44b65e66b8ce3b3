"""The requests that are computed together: while a GPU works on one chunk, the next is taken and prepared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from kshot.core.protocols import RequestQueue
from kshot.core.records import Loglik, Request

T = TypeVar("T")

_FIRST_SCORED, _FIRST_WRITTEN = 32, 256
"""The requests of the first chunk: a GPU should start soon, but texts are written in large batches."""
_GROWTH = 2
"""Each chunk is larger by this factor than the one before."""
_MAX_REQUESTS = 1024
"""After a chunk of this size, all waiting requests are taken at once."""
_STEP_ANSWERS = 8
"""Once so many answers are used, a part of the next chunk is prepared."""


class RequestChunks(Generic[T]):
    """Takes chunks of requests from a queue, and has them prepared.

    ``in_steps``: chunks begin small and grow. While the answers to one are used, the next is taken and prepared in
    parts, so that a GPU never waits until a whole chunk is. How large a chunk is depends on the requests and answers,
    never on the clock: equal runs make equal chunks.
    """

    def __init__(self, queue: RequestQueue, prepare: Callable[[Sequence[Request]], list[T]], *, in_steps: bool) -> None:
        self._queue, self._prepare, self._in_steps = queue, prepare, in_steps
        self._size: int | None = _FIRST_SCORED if in_steps else None
        """The size of the next chunk; None: all that wait."""
        self._prepared: list[T] = []
        self._answers = 0

    def next_chunk(self) -> list[T]:
        """Return the next requests, prepared; none if none waits."""
        self._take(self._size)
        chunk, self._prepared = self._prepared, []
        if self._size is not None:
            self._size = _GROWTH * self._size if self._size < _MAX_REQUESTS else None
        return chunk

    def used_answer(self) -> None:
        """Note that an answer is used; now and then, prepare a part of the next chunk."""
        self._answers += 1
        if self._in_steps and self._answers % _STEP_ANSWERS == 0:
            step = len(self._prepared) + _GROWTH * _STEP_ANSWERS
            self._take(step if self._size is None else min(step, self._size))

    def _take(self, size: int | None) -> None:
        """Take requests until the next chunk has this size."""
        wanted = None if size is None else size - len(self._prepared)
        if wanted is not None and wanted <= 0:
            return
        taken = self._queue.take(wanted)
        if self._size is not None and self._size < _FIRST_WRITTEN and not all(isinstance(r, Loglik) for r in taken):
            self._size = _FIRST_WRITTEN
            taken += self._queue.take(_FIRST_WRITTEN - len(self._prepared) - len(taken))
        if taken:
            self._prepared += self._prepare(taken)
