"""The index of a run's samples: a SQLite file with the place of each line and what lists are filtered and sorted by.

Line ``n`` of ``samples.jsonl``, from 0, has the row ``n`` in each table. Names are stored as they are shown.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias, get_args

from kshot.core.records import ResultRow
from kshot.core.visible import one_line
from kshot.report.page.sample_card import short_value
from kshot.report.sample_look import SampleLook, SampleLooks
from kshot.runs.sample_filters import MetricScale, SampleVerdict, name_of
from kshot.runs.sample_selection import natural_key
from kshot.runs.samples_file import INDEX, PlacedRow, placed_rows
from kshot.viewer.background import Progress
from kshot.viewer.index_place import new_index, open_existing, open_read_only, samples_size

VERSION = 1
VERDICTS: tuple[SampleVerdict, ...] = get_args(SampleVerdict)
"""The table has the position of a verdict in this list."""

NAMED = ("task", "model", "category")
"""What samples share: the table has the codes of these names."""

JUDGED = (
    "(n INTEGER PRIMARY KEY, task INTEGER, model INTEGER, category INTEGER, verdict INTEGER, score REAL,"
    " score_key REAL, answer TEXT, answer_key BLOB)"
)
"""The columns by which lists are filtered and sorted. ``score_key`` has the worst first, and is NULL without one."""

_SCHEMA = (
    """CREATE TABLE samples (n INTEGER PRIMARY KEY, place INTEGER, id BLOB, id_key BLOB, question TEXT,
    failed INTEGER, likelihood INTEGER, scores TEXT, answers TEXT)""",
    """CREATE TABLE names (part TEXT, code INTEGER, name TEXT, name_key BLOB, raw BLOB,
    PRIMARY KEY (part, code)) WITHOUT ROWID""",
    f"CREATE TABLE judged {JUDGED}",
)
_BATCH = 2_000
_MAX_KEY = 64
"""Bytes of an answer's key: the beginning is enough, since the answer itself comes second."""

_SOUND = f"""
SELECT (SELECT count(*) FROM samples WHERE typeof(place) = 'integer' AND place >= 0 AND typeof(id) = 'blob'),
       count(*), min(n), max(n), sum(typeof(verdict) = 'integer' AND verdict BETWEEN 0 AND {len(VERDICTS) - 1}),
       sum(typeof(answer) = 'text'), sum(typeof(score) IN ('real', 'null')), sum(length(answer) > 1000)
FROM judged
"""

Judged: TypeAlias = tuple[int, int | None, int | None, int | None, int, float | None, float | None, str, bytes]


def open_index(folder: Path, stamp: str) -> sqlite3.Connection | None:
    """Open the index that was made of these files; None if there is none, or one that does not fit its rows."""
    connection = open_existing(folder, INDEX, stamp, _SCHEMA)
    if connection is not None:
        with suppress(sqlite3.Error):
            if _is_sound(connection):
                return connection
        connection.close()
    return None


def _is_sound(connection: sqlite3.Connection) -> bool:
    """Whether every line has one row in both tables, with values of the right types."""
    placed, total, first, last, *right, long = connection.execute(_SOUND).fetchone()
    if not total:
        return not placed
    return (first, last, placed) == (0, total - 1, total) and right == [total] * 3 and not long


def build_index(folder: Path, stamp: str, looks: SampleLooks, progress: Progress) -> sqlite3.Connection:
    """Read all samples, write their index, and open it; memory does not grow with their number."""
    size = samples_size(folder)
    names = _Names()
    with new_index(folder, INDEX, stamp, _SCHEMA) as (connection, target), closing(connection.cursor()) as cursor:
        samples: list[tuple[Any, ...]] = []
        judged: list[Judged] = []
        for n, placed in enumerate(placed_rows(folder)):
            one, two = _entries(n, placed, looks.of(placed.row), names)
            samples.append(one)
            judged.append(two)
            if len(samples) == _BATCH:
                _insert(cursor, samples, judged)
                progress(placed.place / size)
        _insert(cursor, samples, judged)
        cursor.executemany("INSERT INTO names VALUES (?, ?, ?, ?, ?)", names.rows())
    return open_read_only(target)


def _insert(cursor: sqlite3.Cursor, samples: list[tuple[Any, ...]], judged: list[Judged]) -> None:
    cursor.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", samples)
    cursor.executemany("INSERT INTO judged VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", judged)
    samples.clear()
    judged.clear()


class _Names:
    """Gives every task, model and category a code, in the order in which they come."""

    def __init__(self) -> None:
        self._codes: dict[str, dict[str, int]] = {part: {} for part in NAMED}

    def code(self, row: ResultRow, part: str) -> int | None:
        if row.get(part) is None and part == "category":
            return None
        codes = self._codes[part]
        return codes.setdefault(name_of(row, part), len(codes))

    def rows(self) -> Iterator[tuple[str, int, str, bytes, bytes]]:
        for part, codes in self._codes.items():
            for name, code in codes.items():
                yield part, code, one_line(name), natural_bytes(name), raw_bytes(name)


def _entries(n: int, placed: PlacedRow, look: SampleLook, names: _Names) -> tuple[tuple[Any, ...], Judged]:
    """Return the rows of one sample in both tables."""
    row, scale = placed.row, look.scale
    scores, question, answers = row.get("scores"), row.get("question"), row.get("answers")
    name = name_of(row, "id")
    answer = short_value(look.answer, look)
    sample = (
        n,
        placed.place,
        raw_bytes(name),
        natural_bytes(name),
        question if isinstance(question, str) and question.isprintable() else None,
        int(bool(row["failed"])) if "failed" in row else None,
        int(isinstance(row.get("answer"), dict) and "nll" in row["answer"]),
        json.dumps(scores) if scores is not None else None,
        _other_answers(answers, answer, look) if isinstance(answers, dict) else None,
    )
    codes = (names.code(row, "task"), names.code(row, "model"), names.code(row, "category"))
    return sample, judged_row(n, codes, row, scale, answer)


def judged_row(
    n: int, codes: tuple[int | None, int | None, int | None], row: ResultRow, scale: MetricScale, answer: str
) -> Judged:
    """Return the row of one sample in the table ``judged``; the codes are those of its task, model and category."""
    score = None if row.get("failed") else scale.score(row)
    key = score if score is None or scale.upwards else -score
    return n, *codes, VERDICTS.index(scale.verdict(row)), score, key, answer, natural_bytes(answer)[:_MAX_KEY]


def _other_answers(answers: Mapping[str, Any], usual: str, look: SampleLook) -> str | None:
    """Return the answers by rules that differ from that of the row, which is named "" where it is not the usual one."""
    own = short_value(look.row.get("answer"), look)
    told = {rule: short_value(answer, look) for rule, answer in answers.items() if rule}
    differ = {rule: text for rule, text in told.items() if text != own} | ({"": own} if own != usual else {})
    return json.dumps(differ) if differ else None


# ---- texts as SQLite compares them ----


def raw_bytes(text: str) -> bytes:
    """Return a text exactly, also one that is no valid Unicode."""
    return text.encode("utf-8", "surrogatepass")


def natural_bytes(text: str) -> bytes:
    """Return bytes that sort as ``natural_key`` does: 9 before 10, letters whatever their case."""
    parts = []
    for kind, digits, piece in natural_key(text):
        raw = raw_bytes(piece)
        parts.append(
            b"\2" + raw.replace(b"\0", b"\0\xff") + b"\0\0" if kind else b"\1" + digits.to_bytes(4, "big") + raw
        )
    return b"".join(parts)


# ---- what is known of a sample besides its texts ----


@dataclass(frozen=True, slots=True)
class IndexedSample:
    """A sample as the index has it, without its texts; ``row`` is what comparisons and scales read of it."""

    n: int
    place: int
    codes: tuple[int | None, int | None, int | None]
    row: ResultRow
    answers: Mapping[str, str]

    def answer(self, metric: str) -> str:
        """Return the short text of the answer that a metric scores."""
        return self.answers.get(metric, self.answers[""])


def indexed_samples(connection: sqlite3.Connection) -> Iterator[IndexedSample]:
    """Yield all samples in the order of the run."""
    found = connection.execute("SELECT part, code, raw FROM names")
    names = {(part, code): raw.decode("utf-8", "surrogatepass") for part, code, raw in found}
    cursor = connection.execute(
        "SELECT s.n, s.place, s.id, s.question, s.failed, s.likelihood, s.scores, s.answers, j.task, j.model,"
        " j.category, j.answer FROM samples s JOIN judged j ON j.n = s.n ORDER BY s.n"
    )
    known: dict[tuple[int | None, ...], ResultRow] = {}
    read_scores = lru_cache(maxsize=1000)(json.loads)  # a binary metric has but two
    for n, place, name, question, failed, likelihood, scores, answers, task, model, category, answer in cursor:
        codes = (task, model, category)
        if codes not in known:
            known[codes] = {
                part: names[part, code] for part, code in zip(NAMED, codes, strict=True) if code is not None
            }
        row = known[codes].copy()
        row["id"] = name.decode("utf-8", "surrogatepass")
        row["answer"] = {"nll": 0.0} if likelihood else None
        if question is not None:
            row["question"] = question
        if failed is not None:
            row["failed"] = bool(failed)
        if scores is not None:
            row["scores"] = read_scores(scores)
        yield IndexedSample(n, place, codes, row, {"": answer} | (json.loads(answers) if answers else {}))
