"""Rows in the form in which evaluators of the homes expect them: much of a ``datasets.Dataset``, without its types.

Runs inside the confined process; standard library only.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any


class Rows:
    """A table of rows: indexed by a number it gives a row, by a name a column, by a slice a dict of columns."""

    stands_for = ("datasets.Dataset", "datasets.arrow_dataset.Dataset")

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        """Keep the rows."""
        self._rows = [dict(row) for row in rows]

    @property
    def column_names(self) -> list[str]:
        """The columns of all rows, in the order in which they come."""
        return list(dict.fromkeys(name for row in self._rows for name in row))

    @property
    def features(self) -> dict[str, Any]:
        """The columns; nothing is said of their types."""
        return dict.fromkeys(self.column_names)

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(row) for row in self._rows)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self.column_names:
                raise KeyError(f"Column {key} not in the dataset. Current columns in the dataset: {self.column_names}")
            return [row.get(key) for row in self._rows]
        if isinstance(key, int):
            return dict(self._rows[key])
        chosen = self._rows[key] if isinstance(key, slice) else [self._rows[index] for index in key]
        return {name: [row.get(name) for row in chosen] for name in self.column_names}

    def select(self, indices: Iterable[int], **_: Any) -> Rows:
        """Return some of the rows."""
        return Rows(self._rows[index] for index in indices)

    def map(self, function: Callable[..., Any], with_indices: bool = False, **_: Any) -> Rows:  # noqa: FBT001, FBT002 - as datasets has it
        """Return rows with what a function adds to each."""
        added = (function(dict(row), i) if with_indices else function(dict(row)) for i, row in enumerate(self._rows))
        return Rows({**row, **(new or {})} for row, new in zip(self._rows, added, strict=True))

    def filter(self, function: Callable[..., Any], **_: Any) -> Rows:
        """Return the rows that a function accepts."""
        return Rows(row for row in self._rows if function(dict(row)))

    def add_column(self, name: str, column: Iterable[Any], **_: Any) -> Rows:
        """Return rows with one more column."""
        return Rows({**row, name: value} for row, value in zip(self._rows, column, strict=True))

    def remove_columns(self, names: Any) -> Rows:
        """Return rows without some columns."""
        gone = {names} if isinstance(names, str) else set(names)
        return Rows({name: value for name, value in row.items() if name not in gone} for row in self._rows)

    def rename_column(self, old: str, new: str) -> Rows:
        """Return rows with a column under another name."""
        return Rows({(new if name == old else name): value for name, value in row.items()} for row in self._rows)

    def to_list(self) -> list[dict[str, Any]]:
        """Return the rows."""
        return [dict(row) for row in self._rows]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns."""
        return {name: self[name] for name in self.column_names}

    def to_pandas(self) -> Any:
        """Return a table of pandas."""
        return importlib.import_module("pandas").DataFrame(self.to_list())
