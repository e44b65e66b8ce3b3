"""What every retriever does: take a dataset, rank training rows, keep those that fit, put them in order."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import index as as_index
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from kshot.core.errors import BadValue
from kshot.retrievers.pool import Text, own_rows, read_pool, text_of, twins

Order: TypeAlias = Literal["nearest_last", "nearest_first", "random"]
SEEDS = 2**32
"""Seeds are those of numpy's legacy generator: 0 to 2³² − 1."""


class Retriever:
    """Chooses training rows to show before each test row; ``retrieve()`` gives their numbers, a list per test row.

    ``ice_separator`` and ``ice_eos_token`` stand between and after the examples in a string prompt. ``exclude_self``
    (on when ``strict``) keeps a row from being its own example; a sequence says which training row each test row is.
    ``order`` is how the chosen ones stand. ``max_tokens`` drops whole examples, the least near first, until the rest
    fit, by ``count(shown(row))`` each. Rows are compared by ``columns``, or by ``text(row)``.
    """

    default_order: ClassVar[tuple[Order, Order]] = ("nearest_first", "nearest_first")
    """The order when none is asked for: strict, and compat (what the originals do)."""

    def __init__(
        self,
        dataset: Any,
        ice_separator: str = "\n",
        ice_eos_token: str = "\n",  # noqa: S107 - a mark in a prompt
        ice_num: int = 1,
        *,
        seed: int | None = 43,
        strict: bool = True,
        exclude_self: bool | Sequence[int | None] | None = None,
        order: Order | None = None,
        max_tokens: int | None = None,
        count: Callable[[str], int] | None = None,
        shown: Text | None = None,
        columns: str | Iterable[str] | None = None,
        text: Text | None = None,
    ) -> None:
        """Read the dataset and check the options."""
        self.pool = read_pool(dataset)
        self.train, self.test = self.pool.train, self.pool.test
        self.ice_separator, self.ice_eos_token = ice_separator, ice_eos_token
        self.ice_num = whole("ice_num", ice_num)
        self.seed = drawn_seed(seed)
        self.strict = strict
        self.order: Order = self._known_order(order)
        self.max_tokens = None if max_tokens is None else whole("max_tokens", max_tokens)
        if max_tokens is not None and count is None:
            raise BadValue("max_tokens is given, and nothing that counts tokens", hint="Give count=, a function.")
        self._count, self._shown = count, shown or self._everything
        self._columns, self._text, self._exclude = columns, text, exclude_self
        self._costs: dict[int, int] = {}

    def retrieve(self) -> list[list[int]]:
        """The numbers of the training rows to show, in order, for each test row."""
        return [list(chosen) for chosen in self.chosen]

    @cached_property
    def chosen(self) -> tuple[tuple[int, ...], ...]:
        """What ``retrieve`` gives, worked out once."""
        return tuple(self._arranged(self._fitting(ranked), row) for row, ranked in enumerate(self.ranked()))

    def ranked(self) -> Iterable[Sequence[int]]:
        """For each test row, in turn, the chosen training rows, nearest first."""
        raise NotImplementedError

    @property
    def facts(self) -> dict[str, Any]:
        """What a run should record of this choice, as plain JSON values."""
        return {
            "retriever": type(self).__name__,
            "ice_num": self.ice_num,
            "seed": self.seed,
            "order": self.order,
            "strict": self.strict,
            "max_tokens": self.max_tokens,
        }

    # ---- never the row itself ----

    @cached_property
    def own(self) -> Sequence[int | None]:
        """The training row that each test row is, where it must not be shown to itself."""
        if isinstance(self._exclude, Sequence):
            if len(self._exclude) != len(self.test):
                raise BadValue(f"exclude_self has {len(self._exclude)} entries for {len(self.test)} test rows")
            return self._exclude
        if self.excludes:
            return own_rows(self.train, self.test)
        return [None] * len(self.test)

    @property
    def excludes(self) -> bool:
        """Whether test rows are kept out of their own examples."""
        return self.strict if self._exclude is None else bool(self._exclude)

    def excluded(self, row: int) -> Sequence[int]:
        """The training rows that must not be shown to a test row."""
        own = self.own[row]
        return () if own is None else (own,)

    def check_pool(self) -> None:
        """Refuse to draw more examples than there are."""
        have = len(self.train)
        left_out = max((len(self.excluded(row)) for row in range(len(self.test))), default=0)
        if self.ice_num > have - left_out:
            less = f", and {left_out} of them must not be shown to a test row: the row itself" if left_out else ""
            raise BadValue(
                f"ice_num is {self.ice_num}; the training set has {have} rows{less}",
                where=type(self).__name__,
                hint="Ask for fewer examples.",
            )

    # ---- order and budget ----

    @cached_property
    def compared(self) -> Text:
        """How a row reads when rows are compared."""
        return text_of(self.pool, self._columns, self._text)

    def _known_order(self, order: Order | None) -> Order:
        if order is None:
            return self.default_order[0 if self.strict else 1]
        if order not in get_args(Order):
            raise BadValue(f"order is {order!r}; it must be one of {', '.join(get_args(Order))}")
        return order

    def _arranged(self, ranked: Sequence[int], row: int) -> tuple[int, ...]:
        match self.order:
            case "nearest_first":
                return tuple(ranked)
            case "nearest_last":
                return tuple(reversed(ranked))
            case "random":
                shuffled = list(ranked)
                self.generator(row, "order").shuffle(shuffled)
                return tuple(shuffled)

    def generator(self, row: int, purpose: str) -> random.Random:
        """A generator that belongs to one test row, so that no row's draw depends on another's."""
        return random.Random(f"{self.seed}/{row}/{purpose}")  # noqa: S311 - a reproducible draw, not a secret

    def _fitting(self, ranked: Sequence[int]) -> Sequence[int]:
        """The nearest ones that fit the budget together."""
        if self.max_tokens is None:
            return ranked
        spent = 0
        for kept, index in enumerate(ranked):
            spent += self._cost(index)
            if spent > self.max_tokens:
                return ranked[:kept]
        return ranked

    def _cost(self, index: int) -> int:
        if index not in self._costs and self._count is not None:
            self._costs[index] = self._count(self._shown(self.train[index]) + self.ice_separator)
        return self._costs[index]

    def _everything(self, row: Any) -> str:
        if not isinstance(row, Mapping):
            return str(row)
        output = self.pool.output_column
        names = (*self.pool.input_columns, *(() if output is None else (output,)))
        return " ".join(str(row[name]) for name in (names if self.pool.input_columns else row))


class Comparing(Retriever):
    """A retriever that compares what rows say: it would find the test row first, wherever a copy of it stands.

    So training rows that say the same in every column are hidden as well as the row itself.
    """

    default_order = ("nearest_last", "nearest_first")

    def excluded(self, row: int) -> Sequence[int]:
        """The training rows that must not be shown to a test row: itself and its copies."""
        return self._hidden[row]

    @cached_property
    def _hidden(self) -> list[tuple[int, ...]]:
        own: list[tuple[int, ...]] = [() if index is None else (index,) for index in self.own]
        if not self.excludes or isinstance(self._exclude, Sequence):
            return own
        copies = twins(self.train, self.test, self.compared)
        return [tuple({*mine, *others}) for mine, others in zip(own, copies, strict=True)]


def whole(name: str, value: Any) -> int:
    """A whole number of 0 or more, or an error that names it."""
    try:
        number = as_index(value)
    except TypeError:
        number = -1
    if number < 0 or isinstance(value, bool):
        raise BadValue(f"{name} is {value!r}; it must be a whole number, 0 or more")
    return number


def drawn_seed(seed: int | None) -> int:
    """The seed itself, or a fresh one where none is given (to be recorded, so that the run can be repeated)."""
    if seed is None:
        return secrets.randbelow(SEEDS)
    number = whole("seed", seed)
    if number >= SEEDS:
        raise BadValue(f"seed is {seed}; it must be below {SEEDS}")
    return number
