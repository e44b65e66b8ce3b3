"""Retrievers that do not read the rows: no examples, named rows, a random draw, a window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import index as as_index
from typing import Any

from kshot.core.errors import BadValue
from kshot.retrievers.base import Retriever


class ZeroRetriever(Retriever):
    """No examples; a template may contain some of its own."""

    shows_examples = False

    def __init__(self, dataset: Any, ice_eos_token: str = "", ice_separator: str = "", **options: Any) -> None:
        """Take the dataset; ``ice_num`` is always 0."""
        super().__init__(dataset, ice_separator, ice_eos_token, **{**options, "ice_num": 0})

    def ranked(self) -> Iterator[Sequence[int]]:
        """Choose nothing for every test row."""
        return (() for _ in range(len(self.test)))


class FixKRetriever(Retriever):
    """The training rows named by ``fix_id_list``, in that order, repeats kept, for every test row.

    A row that is itself among them is shown the others (strict).
    """

    def __init__(
        self,
        dataset: Any,
        fix_id_list: Sequence[int],
        ice_separator: str = "\n",
        ice_eos_token: str = "\n",  # noqa: S107 - a mark in a prompt
        ice_num: int = 1,
        **options: Any,
    ) -> None:
        """Check that every id is a training row; ``ice_num`` is accepted, but the list decides."""
        super().__init__(dataset, ice_separator, ice_eos_token, ice_num, **options)
        self.fix_id_list = tuple(self._checked(each) for each in fix_id_list)
        self.ice_num = len(self.fix_id_list)

    def _checked(self, given: Any) -> int:
        size = len(self.train)
        try:
            number = as_index(given)
        except TypeError:
            number = -1
        if isinstance(given, bool) or not 0 <= number < size:
            raise BadValue(
                f"fix_id_list has {given!r}; the training set has {size} rows",
                where=type(self).__name__,
                hint=f"Ids go from 0 to {size - 1}." if size else "",
            )
        return number

    def ranked(self) -> Iterator[Sequence[int]]:
        """Give the list, without the row itself."""
        for row in range(len(self.test)):
            hidden = self.excluded(row)
            yield tuple(index for index in self.fix_id_list if index not in hidden)


class RandomRetriever(Retriever):
    """For each test row an independent draw without replacement, the same for the same ``seed``.

    Each row takes ``choice(n, ice_num, replace=False)`` from one ``RandomState(seed)``: numpy's legacy stream, and a
    generator of its own. Where a row is itself a training row (strict), the draw is from the n - 1 others: numbers from
    its own on move up by one.
    """

    def ranked(self) -> Iterator[Sequence[int]]:
        """Draw once for each row, in order."""
        import numpy as np

        self.check_pool()
        stream, size = np.random.RandomState(self.seed), len(self.train)
        for own in self.own:
            if own is None:
                yield stream.choice(size, self.ice_num, replace=False).tolist()
            else:
                drawn = stream.choice(size - 1, self.ice_num, replace=False).tolist()
                yield [index + (index >= own) for index in drawn]


class SlidingWindowRetriever(Retriever):
    """The ``k`` training rows just before the test row's own number, the nearest last; before row 0 comes the last row.

    ``around`` takes them from both sides instead, by distance, the earlier one of two equally far.
    """

    default_order = ("nearest_last", "nearest_last")

    def __init__(
        self,
        dataset: Any,
        k: int | None = None,
        ice_separator: str = "\n",
        ice_eos_token: str = "\n",  # noqa: S107 - a mark in a prompt
        ice_num: int = 1,
        *,
        around: bool = False,
        **options: Any,
    ) -> None:
        """Take ``k``, or ``ice_num`` where it is not given."""
        super().__init__(dataset, ice_separator, ice_eos_token, ice_num if k is None else k, **options)
        self.around = around

    def ranked(self) -> Iterator[Sequence[int]]:
        """Take rows by their distance until there are enough."""
        self.check_pool()
        size = len(self.train)
        for row, own in enumerate(self.own):
            at = row if own is None else own
            found: dict[int, None] = {}
            for place in self._places(at, size):
                if len(found) == self.ice_num:
                    break
                if place not in self.excluded(row):
                    found[place] = None
            yield tuple(found)

    def _places(self, at: int, size: int) -> Iterator[int]:
        """Yield row numbers by distance from a place; the place itself comes last, as the farthest on the ring."""
        for step in range(1, size + 1):
            yield (at - step) % size
            if self.around:
                yield (at + step) % size
