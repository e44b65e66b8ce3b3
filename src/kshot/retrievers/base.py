"""The base of all retrievers: it reads the dataset, keeps the examples that fit, and puts them in order.

Training and test rows that are the same are found here too, so that no row is its own example.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from operator import index as as_index
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from kshot.core.errors import BadValue
from kshot.core.protocols import ExampleRetriever

RowText: TypeAlias = Callable[[Any], str]
"""Gives the text of a row."""

_ANSWER_COLUMNS = frozenset(
    (
        "answer",
        "answers",
        "completion",
        "gold",
        "label",
        "labels",
        "output",
        "reference",
        "solution",
        "target",
        "targets",
    )
)
"""Columns that are taken for the answer where the dataset does not name it."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Training and test rows, and the columns of questions and answers, where the dataset declares them.

    ``declares_same_split``: whether both are of one split, if the dataset says so.
    """

    train: Sequence[Any]
    test: Sequence[Any]
    input_columns: tuple[str, ...] = ()
    output_column: str | None = None
    declares_same_split: bool | None = None

    @property
    def same_split(self) -> bool:
        """Whether both are rows of one split, of which the test rows may be the first part."""
        told = self.declares_same_split
        return begins_with(self.train, self.test) if told is None else told

    def questions(self) -> tuple[str, ...]:
        """Return the columns of a question: as declared, else all that are not known to hold an answer."""
        if self.input_columns:
            return self.input_columns
        rows = self.train if len(self.train) else self.test
        row = rows[0] if len(rows) else {}
        if not isinstance(row, Mapping):
            return ()
        answers = _ANSWER_COLUMNS if self.output_column is None else {self.output_column}
        return tuple(str(name) for name in row if str(name).lower() not in answers)


def read_pool(dataset: Any) -> Pool:
    """Find the rows of a dataset: keys or attributes ``train`` and ``test``, of it or its ``dataset``, or rows alone.

    One sequence of rows is both train and test; ``same_split`` says whether both are of one split. A dataset may be an
    object of any class (a dict, a config's reader, one of the library datasets), so its parts can only be found by
    looking for them.
    """
    train, test = _part(dataset, "train"), _part(dataset, "test")
    wrapped = _part(dataset, "dataset")
    if train is None and test is None and wrapped is not None:
        train, test = _part(wrapped, "train"), _part(wrapped, "test")
        if train is None and test is None:
            train = test = wrapped
    if train is None and test is None:
        train = test = dataset
    for name, rows in (("train", train), ("test", test)):
        # rows of the library datasets can be indexed, and are no Sequence
        if isinstance(rows, (str, Mapping)) or not (rows is None or hasattr(rows, "__getitem__")):
            raise BadValue(
                f"a retriever needs a dataset with train and test rows; its {name} rows are {type(rows).__name__}",
                hint="Give an object or a dict with 'train' and 'test', or one list of rows.",
            )
    reader = _part(dataset, "reader")
    declared = [source for source in (reader, dataset) if source is not None]
    inputs = next((found for source in declared if (found := _part(source, "input_columns")) is not None), None)
    output = next((found for source in declared if (found := _part(source, "output_column")) is not None), None)
    columns = inputs.split() if isinstance(inputs, str) else tuple(inputs or ())
    same: bool | None = _part(dataset, "same_split")
    return Pool(() if train is None else train, () if test is None else test, tuple(columns), output, same)


def _part(source: Any, name: str) -> Any:
    if isinstance(source, Mapping):
        return source.get(name)
    return getattr(source, name, None)  # an object of any class: see read_pool


def text_of(pool: Pool, columns: str | Iterable[str] | None, text: RowText | None) -> RowText:
    """Return the function that gives the text of a row: the user's own, or the columns joined by a space."""
    if text is not None:
        return text
    if columns is not None and not isinstance(columns, Iterable):
        raise BadValue(f"columns is {columns!r:.60}; it must be the name of a column, or a list of names")
    names = pool.questions() if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)

    def joined(row: Any) -> str:
        if not isinstance(row, Mapping):
            return str(row)
        missing = [name for name in names if name not in row]
        if missing:
            present = ", ".join(map(str, row))
            raise BadValue(f"examples are compared by the column {missing[0]!r}; a row has: {present}")
        return " ".join(str(row[name]) for name in names)

    if not names and any(isinstance(rows[0], Mapping) for rows in (pool.train, pool.test) if len(rows)):
        raise BadValue("no column is left to compare rows by", hint="Name them: columns=['question'].")
    return joined


def own_rows(train: Sequence[Any], test: Sequence[Any]) -> list[int | None]:
    """Return for each test row the number of the training row that it is, or None.

    Two splits whose rows are all equal are the same rows, number by number; else a test row is a training row only
    where both lists hold the very same object (a slice, a shuffle, repeated rows).
    """
    if len(train) == len(test) and begins_with(train, test):
        return list(range(len(test)))
    if not isinstance(train, (list, tuple)) or not isinstance(test, (list, tuple)):
        return [None] * len(test)  # rows made on access have no lasting identity
    held = {id(row): index for index, row in enumerate(train) if isinstance(row, Mapping)}
    return [held.get(id(row)) for row in test]


def begins_with(train: Sequence[Any], test: Sequence[Any]) -> bool:
    """Whether the test rows are equal to the first training rows: all of a split, or those that ``--limit`` keeps."""
    if train is test:
        return True
    return len(test) <= len(train) and all(equal(a, b) for a, b in zip(train, test, strict=False))


def copies_of(test: Sequence[Any], train: Sequence[Any], text: RowText) -> list[tuple[int, ...]]:
    """Return for each test row the training rows that are equal in every column both have."""
    wanted = {text(row) for row in test}
    groups: dict[str, list[int]] = {}
    for index, row in enumerate(train):
        key = text(row)
        if key in wanted:
            groups.setdefault(key, []).append(index)
    if not groups:
        return [()] * len(test)
    return [tuple(i for i in groups.get(text(row), ()) if _equal_rows(train[i], row)) for row in test]


def _equal_rows(left: Any, right: Any) -> bool:
    if not isinstance(left, Mapping) or not isinstance(right, Mapping):
        return equal(left, right)
    return all(equal(left[name], right[name]) for name in left if name in right)


def equal(left: Any, right: Any) -> bool:
    """Whether two values are equal; arrays, whose comparison gives no single answer, by how they print."""
    if left is right:
        return True
    try:
        return bool(left == right)
    except (TypeError, ValueError):
        return repr(left) == repr(right)


_REHEARSAL: ContextVar[bool] = ContextVar("rehearsal", default=False)

Order: TypeAlias = Literal["nearest_last", "nearest_first", "random"]
SEED_COUNT = 2**32
"""Seeds are those of numpy's legacy generator: 0 to 2³² − 1."""


class Retriever:
    """Chooses the training rows to show before each test row; ``retrieve()`` returns their numbers.

    A subclass implements ``ranked``. ``ice_separator`` and ``ice_eos_token`` stand between and after the examples in a
    string prompt. ``exclude_self`` (on when ``strict``) keeps a row from being its own example; a sequence says which
    training row each test row is. ``order`` is the order of the chosen rows in the prompt. ``max_tokens`` drops whole
    examples, the least near first, until the others fit; an example costs ``count(shown(row))``. Rows are compared by
    their ``columns``, or by ``text(row)``.
    """

    default_order: ClassVar[tuple[Order, Order]] = ("nearest_first", "nearest_first")
    """The order where the user names none: in strict mode, and in compat mode (as the originals do)."""

    shows_examples: ClassVar[bool] = True
    """Whether it can show any: what a user names in vain if the number of examples is 0."""

    takes_run_seed: ClassVar[bool] = True
    """Whether ``--seed`` sets its seed; else its own option ``seed`` alone does."""

    takes_long: ClassVar[bool] = False
    """Whether it compares all rows: a rehearsal then shows the first training rows instead."""

    reads_templates: ClassVar[bool] = False
    """Whether it needs the prompts that its examples would give: entries of configs make them."""

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
        shown: Callable[[Any], str] | None = None,
        columns: str | Iterable[str] | None = None,
        text: Callable[[Any], str] | None = None,
    ) -> None:
        """Read the dataset and check the options."""
        self.pool = read_pool(dataset)
        self.train, self.test = self.pool.train, self.pool.test
        self.ice_separator, self.ice_eos_token = ice_separator, ice_eos_token
        self.ice_num = whole_number("ice_num", ice_num)
        self.seed = checked_seed(seed)
        self.strict = strict
        self.order: Order = self._checked_order(order)
        self.max_tokens = None if max_tokens is None else whole_number("max_tokens", max_tokens)
        if max_tokens is not None and count is None:
            hint = "Give count=, a function from a text to its number of tokens."
            raise BadValue("max_tokens needs a function that counts tokens", hint=hint)
        self._count, self._shown = count, shown or self._question_and_answer
        self._columns, self._text, self._exclude = columns, text, exclude_self
        self._costs: dict[int, int] = {}

    def retrieve(self) -> list[list[int]]:
        """Return for each test row the numbers of the training rows to show, in order."""
        return [list(chosen) for chosen in self.chosen]

    @cached_property
    def chosen(self) -> tuple[tuple[int, ...], ...]:
        """What ``retrieve`` returns, computed once."""
        if _REHEARSAL.get() and self.takes_long:
            self.check_pool()
            return (tuple(range(self.ice_num)),) * len(self.test)
        return tuple(self._ordered(self._fitting(ranked), row) for row, ranked in enumerate(self.ranked()))

    def ranked(self) -> Iterable[Sequence[int]]:
        """Yield for each test row, in turn, the chosen training rows, nearest first."""
        raise NotImplementedError

    @classmethod
    def packages(cls, options: Mapping[str, Any]) -> tuple[str, ...]:  # noqa: ARG003 - for classes that override it
        """Return the packages of kshot's extras that it needs with these options."""
        return ()

    @classmethod
    def list_columns(cls, options: Mapping[str, Any]) -> tuple[str, ...]:  # noqa: ARG003 - for classes that override it
        """Return the columns that must hold a list in each row."""
        return ()

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records of this choice, as plain JSON values."""
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
        if not self.excludes:
            return [None] * len(self.test)
        if self.pool.declares_same_split and begins_with(self.train, self.test):  # the test rows may be the first few
            return range(len(self.test))
        return own_rows(self.train, self.test)

    @property
    def excludes(self) -> bool:
        """Whether test rows are kept out of their own examples."""
        return self.strict if self._exclude is None else bool(self._exclude)

    def excluded(self, row: int) -> Sequence[int]:
        """Return the training rows that must not be shown to a test row."""
        own = self.own[row]
        return () if own is None else (own,)

    def check_pool(self) -> None:
        """Refuse to choose more examples than there are."""
        size = len(self.train)
        left_out = max((len(self.excluded(row)) for row in range(len(self.test))), default=0)
        if self.ice_num > size - left_out:
            less = f", and {left_out} of them must not be shown to a test row: the row itself" if left_out else ""
            raise BadValue(
                f"ice_num is {self.ice_num}; the training set has {size} rows{less}",
                where=type(self).__name__,
                hint="Ask for fewer examples.",
            )

    # ---- order and budget ----

    @cached_property
    def compared(self) -> RowText:
        """The text by which a row is compared with others."""
        return text_of(self.pool, self._columns, self._text)

    def _checked_order(self, order: Order | None) -> Order:
        if order is None:
            return self.default_order[0 if self.strict else 1]
        if order not in get_args(Order):
            raise BadValue(f"order is {order!r}; it must be one of {', '.join(get_args(Order))}")
        return order

    def _ordered(self, ranked: Sequence[int], row: int) -> tuple[int, ...]:
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
        """Return a random generator for one test row, so that no row's draw depends on another's."""
        return random.Random(f"{self.seed}/{row}/{purpose}")  # noqa: S311 - a reproducible draw, not a secret

    def _fitting(self, ranked: Sequence[int]) -> Sequence[int]:
        """Return the nearest rows that fit into ``max_tokens`` together."""
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

    def _question_and_answer(self, row: Any) -> str:
        """Return what an example shows by default: all declared columns, or the whole row."""
        if not isinstance(row, Mapping):
            return str(row)
        output = self.pool.output_column
        names = (*self.pool.input_columns, *(() if output is None else (output,)))
        return " ".join(str(row[name]) for name in (names if self.pool.input_columns else row))


def is_provisional(retriever: ExampleRetriever | None) -> bool:
    """Return whether this is a rehearsal in which the retriever chooses other examples than it would for a model."""
    return _REHEARSAL.get() and isinstance(retriever, Retriever) and retriever.takes_long


@contextmanager
def rehearsal() -> Iterator[None]:
    """Choose examples quickly in this block: for prompts that are tried out and never asked."""
    token = _REHEARSAL.set(True)
    try:
        yield
    finally:
        _REHEARSAL.reset(token)


class ComparingRetriever(Retriever):
    """A retriever that compares the texts of rows. It would find every copy of the test row first.

    So training rows that are equal in every column are hidden, as the row itself is.
    """

    default_order = ("nearest_last", "nearest_first")
    takes_long = True

    def excluded(self, row: int) -> Sequence[int]:
        """Return the training rows that must not be shown to a test row: itself and its copies."""
        return self._hidden[row]

    @cached_property
    def _hidden(self) -> list[tuple[int, ...]]:
        own: list[tuple[int, ...]] = [() if index is None else (index,) for index in self.own]
        if not self.excludes or isinstance(self._exclude, Sequence):
            return own
        copies = copies_of(self.test, self.train, self.compared)
        return [tuple({*mine, *others}) for mine, others in zip(own, copies, strict=True)]


def is_strict(options: Mapping[str, Any]) -> bool:
    """Whether options, of a config or written in a spec, ask for strict rules; the constructor refuses other words."""
    strict = options.get("strict", True)
    return strict.lower() not in {"no", "false", "0", "off"} if isinstance(strict, str) else bool(strict)


def whole_number(name: str, value: Any) -> int:
    """Return a whole number of 0 or more; any other value is an error that names the option."""
    try:
        number = as_index(value)
    except TypeError:
        number = -1
    if number < 0 or isinstance(value, bool):
        raise BadValue(f"{name} is {value!r}; it must be a whole number, 0 or more")
    return number


def checked_seed(seed: int | None) -> int:
    """Return the seed, or a new one where none is given; runs record it, so that they can be repeated."""
    if seed is None:
        return secrets.randbelow(SEED_COUNT)
    number = whole_number("seed", seed)
    if number >= SEED_COUNT:
        raise BadValue(f"seed is {seed}; it must be below {SEED_COUNT}")
    return number
