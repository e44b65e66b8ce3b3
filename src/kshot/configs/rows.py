"""``reader_cfg``: which columns and which rows of a dataset are asked, and which are shown as examples."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from kshot.configs.values import repeats, text
from kshot.core.errors import DataError
from kshot.core.records import Row

Splits: TypeAlias = Mapping[str, Sequence[Row]] | Sequence[Row]
"""The rows of each split, or one list of rows that is both train and test."""


def each_split(splits: Splits, change: Callable[[Sequence[Row]], Sequence[Row]]) -> Splits:
    """Return splits with what a function makes of the rows of each."""
    return {name: change(rows) for name, rows in splits.items()} if isinstance(splits, Mapping) else change(splits)


def all_rows(splits: Splits) -> list[Row]:
    """Return the rows of all splits."""
    return [row for rows in (splits.values() if isinstance(splits, Mapping) else [splits]) for row in rows]


OPENCOMPASS = "opencompass"
"""The framework that repeats a dataset as a whole; the other one repeats each row."""

_MAX_COPIES = 50_000_000
"""The most rows of a split, with their copies."""

KEYS = (
    "input_columns", "output_column", "train_split", "test_split", "train_range", "test_range",
    "input_template", "output_template", "ds_size", "name", "data_files",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReaderConfig:
    """A ``reader_cfg``, checked."""

    input_columns: tuple[str, ...]
    output_column: str | None
    train_split: str
    test_split: str
    train_range: Any
    test_range: Any


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """The rows of one dataset: ``train`` to show, ``test`` to ask. A retriever takes it as its ``dataset``.

    The rows are the very objects that were given; ``shown`` and ``asked`` add the columns ``idx`` and ``subdivision``.
    """

    train: list[Row]
    test: list[Row]
    input_columns: tuple[str, ...]
    output_column: str | None
    abbr: str = "dataset"
    train_repeats: int = 1
    test_repeats: int = 1
    in_blocks: bool = False
    """Whether repeated rows stand one round after the other, and not side by side."""

    def shown(self, index: int) -> Row:
        """Return a training row with all its columns."""
        if not 0 <= index < len(self.train):
            raise DataError(
                f"the example {index} does not exist: there are {len(self.train)} training rows",
                hint="" if self.train else "Give rows for the split that reader_cfg names as train_split.",
            )
        return self._with_columns("train", self.train, index, self.train_repeats)

    def asked(self, index: int) -> Row:
        """Return a test row with all its columns."""
        return self._with_columns("test", self.test, index, self.test_repeats)

    def first_copy(self, number: int) -> int:
        """Return where the first copy of a test row stands, by the number of the row."""
        return number if self.in_blocks else number * self.test_repeats

    def _with_columns(self, split: str, rows: Sequence[Row], index: int, repeats: int) -> Row:
        row, number = rows[index], index % (len(rows) // repeats) if self.in_blocks else index // repeats
        return {**row, "subdivision": f"{self.abbr}_{split}", "idx": number, **row}


def read_rows(
    reader_cfg: Mapping[str, Any], splits: Splits, *, strict: bool, abbr: str = "", n: int = 1, framework: str = ""
) -> SelectedRows:
    """Choose the training and test rows. One list of rows is both; a training split that is missing has no rows.

    ``n`` repeats each test row, its copies side by side; where not strict, the training rows too. OpenCompass repeats
    all rows one round after the other.
    """
    reader = read_reader(reader_cfg, strict=strict, where=abbr)
    n = repeats(n, "n", abbr)
    if not isinstance(splits, Mapping):
        splits = {"train": splits, "test": splits, reader.train_split: splits, reader.test_split: splits}
    train = chosen(list(splits.get(reader.train_split, ())), reader.train_range, where=f"{abbr} train_range".strip())
    if reader.test_split == "train" and not strict and reader.train_split in splits:
        source: Sequence[Row] = train  # the frameworks store their training rows under this name before they read it
    elif reader.test_split in splits:
        source = splits[reader.test_split]
    else:
        raise DataError(
            f"there is no split {reader.test_split!r}",
            where=abbr,
            hint=f"There is {', '.join(map(repr, splits)) or 'none'}; reader_cfg's test_split says which one to ask.",
        )
    test = chosen(list(source), reader.test_range, where=f"{abbr} test_range".strip())
    if strict:
        _check_columns(reader, test, abbr)
    train_repeats = 1 if strict else n
    if n > 1 and n * max(len(test), len(train)) > _MAX_COPIES:
        what = f"n is {n:,}, and there are {max(len(test), len(train)):,} rows; all copies may be {_MAX_COPIES:,}"
        raise DataError(what, where=abbr, hint="Give a smaller n, or fewer rows (test_range, train_range).")
    in_blocks = framework == OPENCOMPASS and not strict
    return SelectedRows(
        _repeated(train, train_repeats, in_blocks=in_blocks),
        _repeated(test, n, in_blocks=in_blocks),
        reader.input_columns,
        reader.output_column,
        abbr or "dataset",
        train_repeats,
        n,
        in_blocks,
    )


def _repeated(rows: list[Row], times: int, *, in_blocks: bool) -> list[Row]:
    return rows * times if in_blocks else [row for row in rows for _ in range(times)]


def read_reader(reader_cfg: Mapping[str, Any], *, strict: bool, where: str = "") -> ReaderConfig:
    """Check a ``reader_cfg``."""
    unknown = [key for key in reader_cfg if key not in KEYS]
    if strict and unknown:
        raise DataError(f"reader_cfg has {unknown[0]!r}", where=where, hint=f"It takes {', '.join(KEYS[:6])}.")
    columns = reader_cfg.get("input_columns", ())
    columns = columns.split() if isinstance(columns, str) else columns
    if not isinstance(columns, (list, tuple)) or not all(isinstance(column, str) for column in columns):
        raise DataError(f"input_columns is {columns!r}", where=where, hint="Write a list of column names.")
    if strict and not columns:
        raise DataError(
            "reader_cfg has no input_columns", where=where, hint="Name the columns that make up a question."
        )
    output = reader_cfg.get("output_column")
    if output is not None and not isinstance(output, str):
        raise DataError(f"output_column is {output!r}", where=where, hint="Give the name of one column, or None.")
    return ReaderConfig(
        tuple(columns),
        output,
        text(reader_cfg, "train_split", "", where) or "train",
        text(reader_cfg, "test_split", "", where) or "test",
        reader_cfg.get("train_range"),
        reader_cfg.get("test_range"),
    )


def _check_columns(reader: ReaderConfig, rows: Sequence[Row], where: str) -> None:
    for index, row in enumerate(rows):
        for column in reader.input_columns:
            if column not in row:
                raise DataError(
                    f"row {index} has no column {column!r}", where=where, hint=f"It has {', '.join(map(str, row))}."
                )


# ---- ranges of rows, read without running them ----

T = TypeVar("T")

_ROWS = "index_list"
"""The name of all row numbers in a range: the frameworks evaluate this name and the text of the range after it."""

MAX_LETTERS = 2000
"""How long the text of a range may be."""
MAX_CHOSEN = 50_000_000
"""How many rows a range may choose; a range can repeat rows."""
MAX_NUMBER = 10**12


def chosen(rows: list[T], wanted: Any, *, where: str = "") -> list[T]:
    """Return the rows of a range: an expression of slices as text, a number or a fraction.

    A number of rows is drawn at random, and the number itself is the seed.
    """
    if wanted is None or wanted == "":
        return rows
    if isinstance(wanted, str):
        return [rows[index] for index in _numbers(wanted, len(rows), where)]
    if isinstance(wanted, bool) or not isinstance(wanted, (int, float)):
        raise bad_range(wanted, where)
    if wanted >= len(rows) or wanted <= 0:
        return rows
    count = int(wanted * len(rows)) if wanted < 1 else wanted
    if not isinstance(count, int):
        raise bad_range(wanted, where)
    order = list(range(len(rows)))
    random.Random(count).shuffle(order)  # noqa: S311 - the draw of the frameworks
    return [rows[index] for index in order[:count]]


def _numbers(text: str, size: int, where: str) -> list[int]:
    """Return the row numbers that the text of a range stands for."""
    if len(text) > MAX_LETTERS:
        raise bad_range(f"{text[:60]}…", where)
    try:
        found = _value(ast.parse(f"{_ROWS}{text}", mode="eval").body, size)
    except (SyntaxError, ValueError, IndexError, RecursionError, MemoryError):
        raise bad_range(text, where) from None
    if not isinstance(found, list):  # one number is no list of rows
        raise bad_range(text, where)
    for index in found:
        if not -size <= index < size:
            raise DataError(f"the range {text!r} asks for row {index}; there are {size} rows", where=where)
    return found


def _value(node: ast.expr, size: int) -> Any:  # noqa: PLR0911 - one for each part
    """Return the value of a part of a range: row numbers, or a whole number. Any other Python is a ValueError."""
    match node:
        case ast.Name(id=name) if name == _ROWS:
            return list(range(size))
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return _small(number)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_number(inner, size)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return _number(inner, size)
        case ast.List(elts=parts):
            return [_number(each, size) for each in parts]
        case ast.Subscript(value=rows, slice=ast.Slice(lower=lower, upper=upper, step=step)):
            ends = (None if each is None else _number(each, size) for each in (lower, upper, step))
            return _rows(rows, size)[slice(*ends)]
        case ast.Subscript(value=rows, slice=place):
            return _rows(rows, size)[_number(place, size)]
        case ast.BinOp(left=left, op=sign, right=right):
            return _combined(_value(left, size), sign, _value(right, size))
    raise ValueError("no part of a range")


def _combined(left: Any, sign: ast.operator, right: Any) -> Any:
    match left, sign, right:
        case int(), ast.Add(), int():
            return _small(left + right)
        case int(), ast.Sub(), int():
            return _small(left - right)
        case int(), ast.Mult(), int():
            return _small(left * right)
        case int(), ast.FloorDiv(), int() if right:
            return _small(left // right)
        case list(), ast.Add(), list() if len(left) + len(right) <= MAX_CHOSEN:
            return left + right
        case list(), ast.Mult(), int() if len(left) * right <= MAX_CHOSEN:
            return left * right
    raise ValueError("no part of a range, or too many rows")


def _rows(node: ast.expr, size: int) -> list[int]:
    found = _value(node, size)
    if not isinstance(found, list):
        raise ValueError("no list of rows")  # noqa: TRY004 - one error for all that cannot be read
    return found


def _number(node: ast.expr, size: int) -> int:
    found = _value(node, size)
    if isinstance(found, list):
        raise ValueError("no whole number")  # noqa: TRY004 - one error for all that cannot be read
    return _small(found)


def _small(number: int) -> int:
    if abs(number) > MAX_NUMBER:
        raise ValueError("too large")
    return number


def bad_range(wanted: Any, where: str) -> DataError:
    """Return the error of a range that cannot be read."""
    return DataError(
        f"the range {wanted!r} cannot be read",
        where=where,
        hint="Write a slice as text, '[0:100]' or '[::2]', slices joined by +, '[:2]+index_list[-1:]', a whole number "
        "of rows, or a fraction below 1.",
    )
