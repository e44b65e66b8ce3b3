"""Rows of a run as data frames: one column for each value, whatever it was nested in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kshot.core.extras import import_package
from kshot.core.records import ResultRow
from kshot.core.shareable import well_formed_value

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
    found: pl.DataFrame = frames.DataFrame({name: _column([row.get(name) for row in flat]) for name in names})
    return found


def _column(values: list[Any]) -> list[Any]:
    """Return the values of a column in one type: as they are, as numbers, or as JSON texts."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    too_large = any(type(value) is int and not -(2**63) <= value < 2**63 for value in values)  # for 64 bits
    if len(kinds) <= 1 and kinds <= set(_SCALARS) and not too_large:
        return values
    return [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
