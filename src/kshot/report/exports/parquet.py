"""Rows of a run as a parquet file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Any

from kshot.core.extras import importing
from kshot.report.exports.typed_columns import Columns, Rows

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
