"""What one rendering of a template may cost: characters that it writes or makes on the way, and steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from itertools import chain
from typing import Any

from jinja2.exceptions import SecurityError

BUDGET_CHARACTERS = 20_000_000
"""What a template may write, and the values that it may make on the way, in one rendering of short values."""

INPUT_TIMES = 20
"""A template that is given long values may make this many times their size besides."""

MAX_BUDGET_CHARACTERS = 400_000_000
"""No rendering makes more, whatever it is given."""

STEP_CHARACTERS = 100
"""A step of a loop, a call or a filter counts as so many characters: a rendering has 200,000 of them."""

MAX_NUMBER = 1_000_000
"""No width, no count and no indent is larger."""

_ITEM_CHARACTERS = 8
_COLLECTIONS = (list, tuple, dict, set, frozenset)


class RenderingLimitError(SecurityError):
    """A template wants more than a rendering may take."""


class RenderBudget:
    """What is left to one rendering. The values that it is given are measured when the short budget is used up."""

    __slots__ = ("_given", "left", "total")

    def __init__(self, given: Callable[[], Iterable[Any]] | None = None) -> None:
        """``given`` returns the values that the template is given."""
        self.total = self.left = BUDGET_CHARACTERS
        self._given = given

    def spend(self, characters: int) -> None:
        """Take a step that makes so many characters."""
        self.left -= STEP_CHARACTERS + characters
        if self.left < 0 and not self._extended(self.left):
            raise self._reached()

    def check(self, characters: int) -> None:
        """Refuse a value that is larger than all that a rendering may make."""
        if characters > self.total and not self._extended(self.total - characters):
            raise self._reached()

    def _extended(self, short: int) -> bool:
        """Add what long values allow, once; return whether that covers what is short, which is negative."""
        if self._given is None:
            return False
        size = sum(written_size(value, {}) for value in self._given())
        more = min(INPUT_TIMES * size, MAX_BUDGET_CHARACTERS - BUDGET_CHARACTERS)
        self._given, self.total, self.left = None, self.total + more, self.left + more
        return short + more >= 0

    def _reached(self) -> RenderingLimitError:
        return RenderingLimitError(
            f"it takes too many steps, or makes too much text: the limit is {self.total:,} characters "
            f"({BUDGET_CHARACTERS:,} and {INPUT_TIMES} times the values that it is given, "
            f"at most {MAX_BUDGET_CHARACTERS:,}), and a step counts as {STEP_CHARACTERS}"
        )


CURRENT: ContextVar[RenderBudget | None] = ContextVar("CURRENT", default=None)
"""The budget of the rendering that is under way, for what jinja calls without its context."""


def current_budget() -> RenderBudget:
    """Return the budget of the rendering that is under way."""
    return CURRENT.get() or RenderBudget()


def size_of(value: Any) -> int:
    """Return about how much a value takes, without what its items take."""
    if isinstance(value, (str, bytes, range)):
        return len(value)
    if isinstance(value, int):
        return value.bit_length() // 3
    return _ITEM_CHARACTERS * len(value) if isinstance(value, _COLLECTIONS) else 0


def written_size(value: Any, known: dict[int, int]) -> int:
    """Return about how many characters a value has when it is written out.

    A list that holds another list twice, which does the same, is small in memory and endless on paper.
    """
    if not isinstance(value, _COLLECTIONS):
        return size_of(value)
    if id(value) not in known:
        known[id(value)] = size_of(value) + sum(written_size(each, known) for each in _items(value))
    return known[id(value)]


def depth(value: Any, known: dict[int, int]) -> int:
    """Return how deeply lists and dictionaries lie in one another."""
    if not isinstance(value, _COLLECTIONS):
        return 0
    if id(value) not in known:
        known[id(value)] = 1 + max((depth(each, known) for each in _items(value)), default=0)
    return known[id(value)]


def _items(value: Any) -> Iterable[Any]:
    return chain(value.keys(), value.values()) if isinstance(value, dict) else value


def writable(value: Any) -> Any:
    """Return a value that can be written out; one that would have no end is refused."""
    if isinstance(value, _COLLECTIONS):
        current_budget().check(written_size(value, {}))
    return value


def check_numbers(given: Iterable[Any]) -> None:
    """Refuse a width or a count that no text needs."""
    for each in given:
        if isinstance(each, int) and abs(each) > MAX_NUMBER:
            raise RenderingLimitError(f"a width or a count above {MAX_NUMBER:,}")
