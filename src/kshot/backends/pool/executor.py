"""Plain work in the workers of a pool: the shards of an index."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from kshot.backends.pool.contract import Launcher, OpenJob
from kshot.backends.pool.dispatcher import MAX_DEATHS, Dispatcher, Lost
from kshot.backends.pool.worker import WorkQueue
from kshot.core.errors import BackendError
from kshot.core.protocols import Work

_ITEMS_EACH = 2
"""Items on the way for each worker: one that it works on, and the next."""
_WAIT_SECONDS = 1.0
"""How long it waits for an event before it looks again: a signal may have come."""
_WHERE = "building an index"


class PoolExecutor:
    """Does work in workers, which are started for each ``map`` and end with it."""

    def __init__(self, launcher: Callable[[int], tuple[Launcher, int]], tell: Callable[[str], None]) -> None:
        """Take what makes a launcher for at most so many workers, and says for how many; ``tell`` shows a line."""
        self._launcher, self._tell = launcher, tell

    def map(
        self, work: Work, numbers: Sequence[int], item: Callable[[int], Any], /
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield each number with the result of its item, as they come; what a worker had that dies is done again."""
        launcher, count = self._launcher(len(numbers))
        dispatcher = Dispatcher(
            launcher, partial(_OpenWork, work), count, where=_WHERE, tell=self._tell, again="shards to build again"
        )
        woken, waiting = threading.Event(), iter(numbers)
        dispatcher.notify = woken.set
        try:
            while True:
                for number in islice(waiting, max(0, _ITEMS_EACH * count - dispatcher.unanswered)):
                    dispatcher.add((number, item(number)), f"{number:09}")
                if not dispatcher.unanswered:
                    return
                answered = False
                for (number, _), result in dispatcher.step():
                    if isinstance(result, Lost):
                        what = f"{MAX_DEATHS} workers died while they did shard {number + 1}"
                        hint = "The same command goes on after the shards that are done."
                        raise BackendError(f"{what}; the last one: {result.reason}", where=_WHERE, hint=hint)
                    answered = True
                    yield number, result
                if not answered:
                    woken.wait(_WAIT_SECONDS)
                    woken.clear()
        finally:
            dispatcher.cancel()
            dispatcher.close()


class _OpenWork(OpenJob):
    """Work that is open in a worker: one item after the other."""

    def __init__(self, work: Work) -> None:
        self._do = work.open()

    def work(self, queue: WorkQueue, /) -> Iterator[tuple[int, Any]]:
        while taken := queue.take(1):
            ((number, (_, item)),) = taken
            yield number, self._do(item)
