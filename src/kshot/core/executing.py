"""Work that may be done in several processes, such as building an index, and an executor that does it in this one.

The pool of ``backends`` is another executor.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol


class Work(Protocol):
    """What an ``Executor`` does with each item. It is pickled where the executor has other processes."""

    def open(self) -> Callable[[Any], Any]:
        """Prepare for work in this process, once, and return what turns an item into its result."""
        ...


class Executor(Protocol):
    """Does pieces of work that need nothing of each other: one after the other, or in several processes."""

    def map(
        self, work: Work, numbers: Sequence[int], item: Callable[[int], Any], /
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield each number with the result of its item, in any order; an item is made when a worker is free for it.

        Closing the generator ends what it has started.
        """
        ...


class ShardedIndex(Protocol):
    """An index that is built in shards, which need nothing of each other and are joined at the end."""

    @property
    def label(self) -> str:
        """What progress is shown under."""
        ...

    @property
    def work(self) -> Work:
        """Turns the item of a shard into its part: arrays of numpy, by name."""
        ...

    @property
    def shards(self) -> Sequence[range]:
        """The passages of each shard, by position; they must not depend on who does the work."""
        ...

    def item(self, shard: range, /) -> Any:
        """Return what the work needs of these passages."""
        ...

    def join(self, folder: Path, parts: Iterable[Mapping[str, Any]], /) -> None:
        """Write the index into an empty folder. The parts are in order, and may be read several times."""
        ...


class InlineExecutor:
    """Does one piece of work after the other, in this process."""

    def map(
        self, work: Work, numbers: Sequence[int], item: Callable[[int], Any], /
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield each number with the result of its item, in order."""
        do = work.open()
        for number in numbers:
            yield number, do(item(number))
