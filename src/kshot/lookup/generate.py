"""Token lookup data: seeded records, by the published procedure.

A record of length L has L - 1 context characters and a query character. The query occurs in the context once (group
``unique``) or several times, never at neighbouring positions (group ``nonunique``). The same settings give the same
bytes.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import comb
from pathlib import Path
from typing import Literal, TypeAlias

from kshot.core.durable import new_version
from kshot.core.errors import DataError, UsageError
from kshot.core.records import Row
from kshot.core.text_files import parse_json, read_whole
from kshot.lookup.settings import MAX_LENGTH, MAX_SAMPLES

VOCAB = string.ascii_letters + string.digits
DIVISOR = 5


@dataclass(frozen=True, slots=True)
class LookupTask:
    """One task: the answer is the neighbour on one side of one occurrence of the query."""

    name: str
    group: Literal["unique", "nonunique"]
    side: Literal["left", "right"]
    occurrence: Literal["first", "last"] = "first"


LOOKUP_TASKS = {
    task.name: task
    for task in (
        LookupTask("UL", "unique", "left"),
        LookupTask("UR", "unique", "right"),
        LookupTask("NLFirst", "nonunique", "left", "first"),
        LookupTask("NRFirst", "nonunique", "right", "first"),
        LookupTask("NLLast", "nonunique", "left", "last"),
        LookupTask("NRLast", "nonunique", "right", "last"),
    )
}
TASKS: dict[str, tuple[str, ...]] = {
    group: tuple(task.name for task in LOOKUP_TASKS.values() if task.group == group)
    for group in ("unique", "nonunique")
}
"""The names of the tasks of each group."""

MIN_ACCEPTANCE = 1 / 500
"""The least probability of a usable draw for which draws are repeated until one is usable.

Below it the positions are drawn directly, from the same distribution: at length 1,000 repeated draws would never end.
With the default divisor, lengths up to 130 are not affected; with divisor 4, lengths up to 76.
"""


def group_of(task: str) -> str:
    """Return the group of records that a task is for."""
    if task not in LOOKUP_TASKS:
        raise UsageError(f"there is no lookup task {task!r}", hint=f"Choose from {', '.join(LOOKUP_TASKS)}.")
    return LOOKUP_TASKS[task].group


def answers(context: str, query: str) -> dict[str, str]:
    """Return the answer to each task, in the published order; the number of occurrences decides which tasks apply."""
    first, last = context.find(query), context.rfind(query)
    if first < 0:
        return {}
    left, right = context[max(0, first - 1) : first], context[first + 1 : first + 2]
    if first == last:
        return {"UL": left, "UR": right}
    return {"NLFirst": left, "NRFirst": right, "NLLast": context[last - 1], "NRLast": context[last + 1 : last + 2]}


def generate(
    group: str,
    length: int,
    samples: int,
    seed: int,
    *,
    hard: bool = False,
    divisor: int = DIVISOR,
    vocab: str = VOCAB,
) -> list[dict[str, str]]:
    """Make the records that ``random.Random(seed)`` gives.

    Nonunique records hold the query k times, k uniform in [2, max(2, (L - 1) // divisor)]; with ``hard`` all are in the
    first half of the context. (The published files of length 20, 30 and 40 were made with ``divisor=4``.)
    """
    check(group, length, samples, hard=hard, divisor=divisor, vocab=vocab)
    rng = random.Random(seed)  # noqa: S311 - reproducible data, no secrets
    without = {query: vocab.replace(query, "") for query in vocab}
    size = length - 1
    allowed = _allowed(size, hard=hard)
    records = []
    for _ in range(samples):
        query = rng.choice(vocab)
        if group == "unique":
            positions = [rng.randint(1, size - 2)]
        else:
            positions = _separate_positions(rng, allowed, rng.randint(2, max(2, size // divisor)))
        others = without[query]
        characters = [rng.choice(others) for _ in range(size)]
        for position in positions:
            characters[position] = query
        context = "".join(characters)
        records.append(
            {"input_no_space": context + query, "input_with_space": f"{context}|{query}", **answers(context, query)}
        )
    return records


def _check_size(length: int, samples: int) -> None:
    if not 1 <= samples <= MAX_SAMPLES:
        raise UsageError(f"cannot make {samples} records", hint=f"Ask for 1 or more, at most {MAX_SAMPLES}.")
    if length > MAX_LENGTH:
        raise UsageError(f"records of length {length} cannot be made", hint=f"The longest have {MAX_LENGTH}.")


def check(group: str, length: int, samples: int, *, hard: bool, divisor: int, vocab: str) -> None:
    """Refuse settings under which some record could not be made."""
    _check_size(length, samples)
    if group not in TASKS:
        raise UsageError(f"there is no group {group!r}", hint="Choose unique or nonunique.")
    if divisor < 1:
        raise UsageError(f"the divisor must be 1 or more, not {divisor}")
    unusable = sorted({c for c in vocab if c.isspace() or c in "|:" or vocab.count(c) > 1})
    if unusable:
        raise UsageError(
            f"the vocabulary must not hold {' '.join(map(repr, unusable))}",
            hint="Give each character once, and no white space, '|' or ':'.",
        )
    if len(vocab) < 2:  # noqa: PLR2004 - a query and something that is not the query
        raise UsageError(f"a vocabulary of {len(vocab)} characters is too small", hint="Give two or more.")
    if group == "unique":
        if hard:
            raise UsageError("hard records exist only in the nonunique group")
        if length < 4:  # noqa: PLR2004 - the query with its two neighbours, and the query once more at the end
            raise UsageError(f"unique records of length {length} do not exist", hint="The shortest is 4.")
        return
    wanted = max(2, (length - 1) // divisor)
    possible = (len(_allowed(length - 1, hard=hard)) + 1) // 2
    if wanted > possible:
        kind = "hard nonunique" if hard else "nonunique"
        raise UsageError(
            f"{kind} records of length {length} have room for {max(0, possible)} occurrences that are not neighbours; "
            f"divisor {divisor} asks for up to {wanted}",
            hint="Use a greater length (nonunique: 7 or more) or a greater divisor.",
        )


def _allowed(size: int, *, hard: bool) -> range:
    return range(2, size // 2) if hard else range(2, size - 1)


@lru_cache(maxsize=4096)
def _can_repeat_draws(positions: int, count: int) -> bool:
    return comb(positions - count + 1, count) / comb(positions, count) >= MIN_ACCEPTANCE


def _separate_positions(rng: random.Random, allowed: range, count: int) -> list[int]:
    """Draw this many positions of which no two are neighbours; all such sets are equally likely."""
    if not _can_repeat_draws(len(allowed), count):
        compact = range(len(allowed) - count + 1)
        return [allowed[slot + rank] for rank, slot in enumerate(sorted(rng.sample(compact, count)))]
    while True:
        positions = sorted(rng.sample(allowed, count))
        if all(right - left > 1 for left, right in pairwise(positions)):
            return positions


def file_name(samples: int, length: int, seed: int, *, hard: bool = False) -> str:
    """Return the published name of a data file."""
    return f"{'hard_' if hard else ''}sample_{samples}_len_{length}_seed_{seed}.jsonl"


def dumps(records: list[dict[str, str]]) -> str:
    """Write records as the published files have them: one line of default ``json.dumps`` each."""
    return "".join(json.dumps(record) + "\n" for record in records)


def write(
    out: str | Path,
    group: str,
    length: int,
    samples: int,
    seed: int,
    *,
    hard: bool = False,
    divisor: int = DIVISOR,
    vocab: str = VOCAB,
) -> Path:
    """Generate records and write them to ``OUT/<group>/<published name>``; return the path."""
    records = generate(group, length, samples, seed, hard=hard, divisor=divisor, vocab=vocab)
    path = Path(out).expanduser() / group / file_name(samples, length, seed, hard=hard)
    with new_version(path) as file:
        file.write(dumps(records))
    return path


# ---- files: test data and recorded completions in the published formats, checked as they are read ----

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
