"""Which item goes to which worker: by the beginning of its text, so that few workers compute one prefix.

All waiting items stand in one list, sorted by their texts: what begins alike stands together. Each worker owns a
contiguous part of the list, and takes chunks from it. So a prefix is computed by more than one worker only where two
parts meet inside of what shares it. A worker whose part is empty takes one half of the largest part; the cut is made
where the two sides have the least in common. What is added later joins the part where its text belongs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from itertools import pairwise
from typing import TypeAlias

from kshot.backends.texts import common_length

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
