"""Queries from a file, which are searched instead of the questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Row, Sample
from kshot.tables.files import read_file

_QUERY_COLUMNS = ("keywords", "query", "query_text", "text")
_ID_COLUMNS = ("id", "_id", "qid", "query-id")


def read_queries(path: str, samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples with the queries of the file, matched by chapter and question number, or by id."""
    rows = read_file(path)
    if isinstance(rows, Mapping) or not rows:
        raise DataError("a table of queries is expected", where=path)
    column = next((name for name in _QUERY_COLUMNS if name in rows[0]), None)
    if column is None:
        raise DataError(
            f"it has no column of queries, only {', '.join(rows[0])}", where=path, hint=f"Name it {_QUERY_COLUMNS[0]}."
        )
    queries: dict[str, str] = {}
    for number, row in enumerate(rows, start=1):
        question = _question_id(row, f"{path}, row {number}")
        if question in queries:
            raise DataError(f"question {question} has two queries", where=f"{path}, row {number}")
        queries[question] = _query(row.get(column), f"{path}, row {number}")
    missing = [sample.id for sample in samples if sample.id not in queries]
    if missing:
        raise DataError(
            f"it has no query for {len(missing)} of {len(samples)} questions, the first is {missing[0]}",
            where=path,
            hint="Rows are matched by chapter and question_number, or by id.",
        )
    return [replace(sample, fields={**sample.fields, "query": queries[sample.id]}) for sample in samples]


def _question_id(row: Row, where: str) -> str:
    if "chapter" in row and "question_number" in row:
        return f"{str(row['chapter']).strip()}.{str(row['question_number']).strip()}"
    name = next((name for name in _ID_COLUMNS if name in row), None)
    if name is None:
        raise DataError("a row needs chapter and question_number, or id", where=where)
    return str(row[name])


def _query(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"the query is {value!r:.40}; it must be text", where=where)
    text = value.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
