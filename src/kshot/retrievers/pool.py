"""The rows that a retriever works on: training and test rows, which of them are the same, and their texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from kshot.core.errors import BadValue

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
