"""Rows of a run as columns of one type each: data frames, CSV for spreadsheets or programs, and parquet."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias, cast

from kshot.core.errors import RunError
from kshot.core.extras import import_package, importing
from kshot.core.records import ResultRow
from kshot.core.shareable import well_formed, well_formed_value
from kshot.core.visible import visible

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_SCALARS = (bool, int, float, str)


def flat_rows(rows: Iterable[ResultRow]) -> Iterator[ResultRow]:
    """Yield rows whose intervals and scores have columns of their own: ``ci95_low``, ``ci95_high``, ``score_EM``."""
    for row in rows:
        flat: ResultRow = {}
        for name, value in row.items():
            if name == "ci95" and _is_interval(value):
                low, high = value or (None, None)
                flat |= {"ci95_low": low, "ci95_high": high}
            elif name == "scores" and isinstance(value, Mapping):
                flat |= {f"score_{metric}": score for metric, score in value.items()}
            else:
                flat[name] = value
        yield flat


def _is_interval(found: Any) -> bool:
    """Whether this is an interval, or none; a sample of a stranger may have anything under this name."""
    return found is None or (isinstance(found, (list, tuple)) and len(found) == 2)  # noqa: PLR2004 - its two ends


def pandas_frame(rows: Iterable[ResultRow]) -> pd.DataFrame:
    """Return rows as a frame of pandas; lists, such as the messages of a chat, stay lists."""
    frames = import_package("to_pandas", "pandas")
    found: pd.DataFrame = frames.DataFrame([well_formed_value(row) for row in flat_rows(rows)])
    return found


def polars_frame(rows: Iterable[ResultRow]) -> pl.DataFrame:
    """Return rows as a frame of polars. A column that has lists or several types holds JSON texts."""
    frames = import_package("to_polars", "polars")
    flat = [well_formed_value(row) for row in flat_rows(rows)]
    names = dict.fromkeys(name for row in flat for name in row)
    found: pl.DataFrame = frames.DataFrame({name: _frame_column([row.get(name) for row in flat]) for name in names})
    return found


def _frame_column(values: list[Any]) -> list[Any]:
    """Return the values of a column in one type: as they are, as numbers, or as JSON texts."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    too_large = any(type(value) is int and not -(2**63) <= value < 2**63 for value in values)  # for 64 bits
    if len(kinds) <= 1 and kinds <= set(_SCALARS) and not too_large:
        return values
    return [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]


# ---- files ----

ColumnType: TypeAlias = Literal["text", "whole", "number", "truth", "json"]
"""``json``: every value of the column is JSON text, because some are lists or because their types differ."""

Rows: TypeAlias = Callable[[], Iterable[ResultRow]]
"""Reads rows from the beginning, each time that it is called."""

_MAX_COLUMNS = 2_000
"""A run has some dozens. A table of a folder in which every row has other names would grow with the square of it."""

_EXACT = 2**53
"""Up to here every whole number is also a float."""

_FIGURES = {"value", "ci95_low", "ci95_high", "difference", "p", "p_corrected"}
"""Columns of numbers, also where none is known or all happen to be whole."""


_FITTING: dict[str, tuple[type, ...]] = {"text": (str,), "whole": (int,), "number": (int, float), "truth": (bool,)}


class Columns:
    """The columns of some rows: the ``names`` to write, their types by their own names, and the values of each row."""

    def __init__(self, rows: Rows) -> None:
        """Take what reads the rows; it is called twice."""
        self._rows = rows
        self.types = _types(rows())
        self.names = _distinct(map(well_formed, self.types))

    def values(self) -> Iterator[list[Any]]:
        """Yield the values of each row, in the types of the columns; None stands for no value."""
        for row in flat_rows(self._rows()):
            if not row.keys() <= self.types.keys():
                raise _changed()
            yield [_stored(row.get(name), kind) for name, kind in self.types.items()]


def _distinct(names: Iterable[str]) -> list[str]:
    """Return names of which no two are equal: two that UTF-8 cannot write may become the same text."""
    found: dict[str, None] = {}
    for name in names:
        new = name
        while new in found:
            new += "_"
        found[new] = None
    return list(found)


def _types(rows: Iterable[ResultRow]) -> dict[str, ColumnType]:
    found: dict[str, str | None] = {}
    for row in flat_rows(rows):
        for name, value in row.items():
            kind = found.setdefault(name, "number" if name in _FIGURES or name.startswith("score_") else None)
            if value is not None:
                found[name] = _joined(kind, _kind(value))
        if len(found) > _MAX_COLUMNS:
            raise RunError(f"its rows have more than {_MAX_COLUMNS:,} columns", hint="kshot did not write them.")
    plain: dict[str | None, str] = {None: "text", "large": "whole"}
    return {name: cast("ColumnType", plain.get(kind, kind)) for name, kind in found.items()}


def _kind(value: Any) -> str:
    """Return the type of a value; ``large``: a whole number of 64 bits that is no float."""
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, int):
        return "whole" if abs(value) <= _EXACT else "large" if -(2**63) <= value < 2**63 else "json"
    return "number" if isinstance(value, float) else "text" if isinstance(value, str) else "json"


def _joined(one: str | None, other: str) -> str:
    """Return the type that has the values of both."""
    if one is None or one == other:
        return other
    both = {one, other}
    return "number" if both == {"whole", "number"} else "large" if both == {"whole", "large"} else "json"


def _stored(value: Any, kind: ColumnType) -> Any:
    if value is None:
        return None
    if kind == "json":
        return well_formed(json.dumps(value, ensure_ascii=False))
    fits = isinstance(value, _FITTING[kind]) and (kind == "truth" or not isinstance(value, bool))
    if not fits:
        raise _changed()
    return float(value) if kind == "number" else well_formed(value) if kind == "text" else value


def _changed() -> RunError:
    return RunError("the run has changed while it was exported", hint="Export it again when it is done.")


_FORMULA = re.compile(r"[\s\u200b-\u200f\ufeff]*[=+\-@＝＋－＠]|[\t\r\n]")
"""How a text begins that some spreadsheet reads as a formula, also after white space."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def spreadsheet_cell(value: Any) -> str | int | float:
    """Return a value for a cell: numbers as numbers, no value as an empty cell, texts so that none is a formula.

    A text that would be one gets an apostrophe before it, which spreadsheets take for "this is text". Control
    characters are shown as escapes.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    text = str(value)
    if _FORMULA.match(text) and not _NUMBER.fullmatch(text):
        text = f"'{text}"
    return visible(text)


def write_spreadsheet(file: IO[str], rows: Iterable[Iterable[Any]], delimiter: str = ",") -> None:
    """Write rows, the first of which is the header. Every text is quoted: no part of one becomes a cell of its own."""
    writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerows([spreadsheet_cell(value) for value in row] for row in rows)


def write_csv(file: IO[str], rows: Rows, *, raw: bool = False) -> None:
    """Write a header and the rows.

    A text that a spreadsheet would run as a formula gets an apostrophe before it, and control characters become
    escapes; ``raw``: every text as it is, for programs.
    """
    columns = Columns(rows)
    lines = chain([columns.names], columns.values())
    if not raw:
        write_spreadsheet(file, lines)
        return
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerows([str(value) if isinstance(value, bool) else value for value in line] for line in lines)


_GROUP_ROWS = 1_000
_GROUP_CHARACTERS = 16 << 20
"""The rows that are in memory at once, and written as one row group."""

_JSON_MARK = {"kshot": "json"}
"""The metadata of a column whose values are JSON texts."""


def write_parquet(file: IO[bytes], rows: Rows) -> None:
    """Write the rows, some at a time; memory does not grow with their number."""
    with importing("--to parquet", "pyarrow"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    columns = Columns(rows)
    types = {"text": pa.string(), "json": pa.string(), "whole": pa.int64(), "number": pa.float64(), "truth": pa.bool_()}
    schema = pa.schema(
        pa.field(name, types[kind], metadata=_JSON_MARK if kind == "json" else None)
        for name, kind in zip(columns.names, columns.types.values(), strict=True)
    )
    with pq.ParquetWriter(file, schema) as writer:
        for group in _groups(columns.values()):
            arrays = [
                pa.array(values, each.type) for values, each in zip(zip(*group, strict=True), schema, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _groups(rows: Iterable[list[Any]]) -> Iterator[list[list[Any]]]:
    group: list[list[Any]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += sum(len(value) for value in row if isinstance(value, str))
        if len(group) >= _GROUP_ROWS or size >= _GROUP_CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group
