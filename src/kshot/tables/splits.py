"""Rows of one split: slices such as ``test[:100]``, the first rows, and rows that are read when they are first used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol, TypeAlias, runtime_checkable

from kshot.core.errors import DataError
from kshot.core.records import Row

Rows: TypeAlias = Sequence[Row]

_SPLIT = re.compile(r"^(?P<name>[^\[\]+]+)(?:\[(?P<start>-?\d{1,18}%?)?:(?P<stop>-?\d{1,18}%?)?\])?$")


@runtime_checkable
class _SelectableRows(Protocol):
    """A Hugging Face dataset, which selects rows without reading the others."""

    def select(self, indices: Iterable[int], /) -> Rows: ...


def slice_rows(rows: Rows, split: str, where: str = "") -> Rows:
    """Apply the slice of a split such as ``test[:100]`` or ``train[10%:20%]``."""
    parts = _SPLIT.match(split.strip())
    if parts is None:
        raise DataError(
            f"the split {split!r} cannot be read", where=where, hint="Write test, test[:100] or test[10%:20%]."
        )
    size = len(rows)
    start, stop = (_bound(parts[name], size) for name in ("start", "stop"))
    if start is None and stop is None:
        return rows
    chosen = range(size)[start:stop]
    return rows.select(chosen) if isinstance(rows, _SelectableRows) else [rows[i] for i in chosen]


def _bound(text: str | None, size: int) -> int | None:
    if text is None:
        return None
    return round(int(text[:-1]) * size / 100) if text.endswith("%") else int(text)


def split_name(split: str) -> str:
    """Return the name of a split without its slice."""
    parts = _SPLIT.match(split.strip())
    return (parts["name"] if parts else split).strip()


def first_rows(rows: Rows, limit: int) -> Rows:
    """Return the first rows; those after them are not read."""
    return rows.select(range(limit)) if isinstance(rows, _SelectableRows) else list(islice(rows, limit))


class LazyRows(Sequence[Row]):
    """Rows that are read when they are first used."""

    def __init__(self, load: Callable[[], Rows]) -> None:
        self._load = load
        self._rows: Rows | None = None

    def _read(self) -> Rows:
        if self._rows is None:
            self._rows = self._load()
        return self._rows

    def __len__(self) -> int:
        return len(self._read())

    def __getitem__(self, index: Any) -> Any:
        return self._read()[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._read())
