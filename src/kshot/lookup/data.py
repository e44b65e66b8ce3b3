"""Token lookup files: test data and recorded completions in the published formats, checked as they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.core.text_files import parse_json, read_whole
from kshot.lookup.generate import LOOKUP_TASKS, answers, group_of

RecordSource: TypeAlias = str | Path | Iterable[Row]
"""Records: a file of JSON lines, or the records themselves."""


def read(source: RecordSource, task: str | None = None) -> list[Row]:
    """Read records and check each: for one task, or for all tasks that it has answers to."""
    return [_checked(record, where, task) for where, record in _located(source)]


def completions(source: RecordSource) -> list[Row]:
    """Read recorded completions: at least ``full_output``, ``input``, ``target`` and ``task``, as published."""
    rows = []
    for where, row in _located(source):
        for name in ("input", "target", "full_output", "task"):
            if not isinstance(row.get(name), str):
                raise DataError(f"a recorded completion needs the text {name!r}", where=where)
        if row["task"] not in LOOKUP_TASKS:
            known_tasks = ", ".join(LOOKUP_TASKS)
            raise DataError(f"there is no lookup task {row['task']!r:.40}", where=where, hint=f"Tasks: {known_tasks}.")
        if row["task"] not in (known := answers(*parts(row["input"]))):
            raise DataError(_misplaced(row["input"], row["task"]), where=where)
        if known[row["task"]] != row["target"]:
            raise DataError(_contradiction(row["input"], row["task"], row["target"]), where=where)
        rows.append(row)
    return rows


def parts(text: str) -> tuple[str, str]:
    """Split an input, with or without its bar, into context and query."""
    return text[:-1].removesuffix("|"), text[-1:]


def _located(source: RecordSource) -> Iterator[tuple[str, Row]]:
    if not isinstance(source, str | Path):
        for index, record in enumerate(source):
            if not isinstance(record, Mapping):
                raise DataError(f"a record must be a mapping, not {type(record).__name__}", where=f"record {index}")
            yield f"record {index}", record
        return
    try:
        lines = read_whole(Path(source)).decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the lookup records cannot be read: {error}", where=str(source)) from error
    if not any(line.strip() for line in lines):
        raise DataError("the file holds no records", where=str(source))
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield f"{source}, line {number}", _parsed(line, f"{source}, line {number}")


def _parsed(line: str, where: str) -> Row:
    try:
        record = parse_json(line)
    except ValueError as error:
        raise DataError(f"this line is not JSON: {error}", where=where) from error
    if not isinstance(record, dict):
        raise DataError("this line is not a JSON object", where=where)
    return record


def _checked(record: Row, where: str, task: str | None) -> Row:
    joined, spaced = record.get("input_no_space"), record.get("input_with_space")
    if not isinstance(joined, str) or not isinstance(spaced, str):
        raise DataError("a lookup record needs the texts 'input_no_space' and 'input_with_space'", where=where)
    if spaced != f"{joined[:-1]}|{joined[-1:]}":
        raise DataError(f"the two inputs differ: {joined!r} and {spaced!r}", where=where)
    tasks = [task] if task else [name for name in LOOKUP_TASKS if name in record]
    if not tasks:
        raise DataError("a lookup record needs the answer to at least one task", where=where)
    known = answers(*parts(joined))
    if known and not all(known.values()):
        raise DataError(
            f"the query of {joined!r} is at the edge of the context, where it has only one neighbour", where=where
        )
    for name in tasks:
        if name not in known:
            raise DataError(_misplaced(joined, name), where=where)
        if name not in record:
            raise DataError(f"the record has no answer for {name}", where=where)
        if record[name] != known[name]:
            raise DataError(_contradiction(joined, name, record[name]), where=where)
    return record


def _misplaced(text: str, task: str) -> str:
    context, query = parts(text)
    return (
        f"{task} is for {group_of(task)} records, but the query {query!r} occurs {context.count(query)} time(s) "
        f"in the context {context!r}"
    )


def _contradiction(text: str, task: str, target: object) -> str:
    context, query = parts(text)
    right = answers(context, query)[task]
    return f"the target {target!r} contradicts its context: {task} of {query!r} in {context!r} is {right!r}"
