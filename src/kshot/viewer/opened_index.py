"""An index that is ready: lists, counts and rows of one version of a run's samples, by the query of a link."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from kshot.core.errors import RunError, UsageError
from kshot.core.records import ResultRow
from kshot.core.visible import one_line
from kshot.report.page.sample_card import sample_line
from kshot.report.sample_look import SampleLooks
from kshot.runs.headline import TaskOnModel, task_rows
from kshot.runs.sample_filters import HEADLINE, MetricScale, SampleFilter, SampleVerdict, metric_scales, name_of
from kshot.runs.samples_file import rows_at
from kshot.viewer.background import Abandoned
from kshot.viewer.index_file import (
    JUDGED,
    NAMED,
    VERDICTS,
    IndexedSample,
    Judged,
    file_of,
    indexed_samples,
    judged_row,
    open_read_only,
    raw_bytes,
)

SampleOrder: TypeAlias = Literal["run", "score", "id", "task", "category", "answer"]
Flip: TypeAlias = Literal["won", "lost", "flipped"]
"""``won``: this run is right and the other one is not. ``flipped``: won or lost."""

_Word = TypeVar("_Word", bound=str)

_ORDERS: tuple[SampleOrder, ...] = get_args(SampleOrder)
_FLIPS: tuple[Flip, ...] = get_args(Flip)
_YES_OR_NO = {"": False, "0": False, "no": False, "false": False, "1": True, "yes": True, "true": True}
_MAX_CHARACTERS = 10_000
_MAX_NUMBER = 10**12


@dataclass(frozen=True, slots=True)
class SampleQuery:
    """What samples must be to be listed; None, an empty set and an empty text: anything.

    ``metric`` is that by which they are right or wrong (None: the headline of each task). ``answer`` is the short text
    of an answer. ``text`` has words and "phrases" that all stand in a sample. ``flip`` needs another run. ``find`` is
    the number of a sample whose place in the list is wanted, too.
    """

    verdicts: frozenset[SampleVerdict] = frozenset()
    task: str | None = None
    model: str | None = None
    category: str | None = None
    answer: str | None = None
    text: str = ""
    metric: str | None = None
    sort: SampleOrder = "run"
    reverse: bool = False
    flip: Flip | None = None
    find: int | None = None


def sample_query(given: Mapping[str, str]) -> SampleQuery:
    """Read the values of a query string; names that are no part of a query are left alone, and empty ones are no limit.

    ``verdict=wrong`` is what pages count as wrong; ``wrong,partly`` is what ``kshot samples --wrong`` lists.
    """
    for name, value in given.items():
        if len(value) > _MAX_CHARACTERS:
            raise UsageError(f"{name!r:.40} has {len(value):,} characters, above the limit of {_MAX_CHARACTERS:,}")
    metric, verdicts = given.get("metric") or None, given.get("verdict", "").split(",")
    return SampleQuery(
        frozenset(_one_of("verdict", each.strip(), VERDICTS) for each in verdicts if each.strip()),
        task=given.get("task") or None,
        model=given.get("model") or None,
        category=given.get("category") or None,
        answer=given.get("answer") or None,
        text=given.get("q", "").strip(),
        metric=None if metric == HEADLINE else metric,
        sort=_one_of("sort", given.get("sort") or "run", _ORDERS),
        reverse=_flag("reverse", given.get("reverse", "")),
        flip=_one_of("flip", given["flip"], _FLIPS) if given.get("flip") else None,
        find=whole_number("find", given["find"], default=0, most=_MAX_NUMBER) if given.get("find") else None,
    )


def whole_number(name: str, text: str, *, default: int, most: int) -> int:
    """Read a count or a position that a request gives, such as ``offset``; a larger one than ``most`` is that."""
    if not text:
        return default
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:  # noqa: PLR2004 - SQLite's integers
        raise UsageError(f"{name} is {text!r:.40}, not a whole number")
    return min(int(text), most)


def _one_of(name: str, value: str, known: tuple[_Word, ...]) -> _Word:
    for each in known:
        if each == value:
            return each
    raise UsageError(f"{name} is {value!r:.40}", hint=f"It may be: {', '.join(map(str, known))}.")


def _flag(name: str, value: str) -> bool:
    if value not in _YES_OR_NO:
        raise UsageError(f"{name} is {value!r:.40}", hint="It may be: 0 or 1.")
    return _YES_OR_NO[value]


_ORDER_KEYS: dict[SampleOrder, str] = {
    "run": "",
    "score": "j.score_key",
    "id": "(SELECT id_key FROM samples s WHERE s.n = j.n)",
    "task": "(SELECT name_key FROM names WHERE part = 'task' AND code = j.task)",
    "category": "(SELECT name_key FROM names WHERE part = 'category' AND code = j.category)",
    "answer": "nullif(j.answer_key, x'')",
}
"""What is sorted by; what has none of it is NULL, and comes last."""


@dataclass(frozen=True, slots=True)
class SampleSql:
    """The condition and the order of a list; ``values`` are those of the condition."""

    where: str
    order: str
    values: tuple[Any, ...]


def sample_sql(query: SampleQuery, *, flips: str = "", words: str = "", match: str = "") -> SampleSql:
    """Return a query for the table ``judged`` as ``j``.

    ``flips`` is the table of samples that flipped (1: won, -1: lost), and ``words`` the full-text table, in which
    ``match`` is looked for; without a name there is no such condition.
    """
    conditions: list[str] = []
    values: list[Any] = []
    if query.verdicts:
        codes = sorted(VERDICTS.index(each) for each in query.verdicts)
        conditions.append(f"j.verdict IN ({', '.join(map(str, codes))})")
    for part in NAMED:
        name = getattr(query, part)
        if name is not None:
            conditions.append(f"j.{part} IN (SELECT code FROM names WHERE part = '{part}' AND name = ?)")
            values.append(one_line(name))
    if query.answer is not None:
        conditions.append("j.answer = ?")
        values.append(one_line(query.answer))
    if flips and query.flip is not None:
        which = {"won": " WHERE flip = 1", "lost": " WHERE flip = -1", "flipped": ""}[query.flip]
        conditions.append(f"j.n IN (SELECT n FROM {flips}{which})")
    if words:
        conditions.append(f"j.n IN (SELECT rowid FROM {words} WHERE {words.rpartition('.')[2]} MATCH ?)")
        values.append(match)
    return SampleSql(" AND ".join(conditions) or "1", _order(query), tuple(values))


def _order(query: SampleQuery) -> str:
    """Return the order; equal samples keep the order of the run, whatever the direction."""
    key, down = _ORDER_KEYS[query.sort], " DESC" if query.reverse else ""
    if not key:
        return f"j.n{down}"
    second = f", j.answer{down}" if query.sort == "answer" else ""
    return f"{key} IS NULL, {key}{down}{second}, j.n"


def _judged(connection: sqlite3.Connection, scales: SampleFilter) -> Iterator[Judged]:
    for each in indexed_samples(connection):
        scale = scales.scale(each.row)
        yield judged_row(each.n, each.codes, each.row, scale, each.answer(scale.metric))


_MOST_ANSWERS = 30
_MOST_COUNTS, _MOST_TABLES = 256, 8


class UnfitIndexError(Exception):
    """The index says something else of a sample than ``samples.jsonl`` does."""


class _Found(NamedTuple):
    n: int
    place: int
    id: bytes
    names: tuple[bytes, ...]
    verdict: int


class OpenedIndex:
    """One connection with its lock; all methods may be called from any thread."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, results: Sequence[ResultRow]) -> None:
        """Take the index of a folder, and the figures of its ``summary.json``."""
        self.folder, self._connection, self._results = folder, connection, results
        self._lock, self._closed = threading.RLock(), False
        self._looks: dict[str | None, tuple[dict[TaskOnModel, MetricScale], SampleLooks]] = {}
        self._facets: dict[str | None, dict[str, Any]] = {}
        self._counts: dict[tuple[str, SampleSql], int] = {}
        self._judged: dict[object, str] = {}
        self._flips: dict[object, str] = {}
        self._words = ""
        self._made = 0
        (self.total,) = connection.execute("SELECT count(*) FROM main.judged").fetchone()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._closed = True
            self._connection.close()

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Keep other threads from the connection, and from closing it."""
        with self._lock:
            if self._closed:
                raise Abandoned  # the run has another one
            yield

    # ---- scales ----

    def scales(self, metric: str | None) -> dict[TaskOnModel, MetricScale]:
        """Return the scales by which samples are right; None: those of the headlines."""
        return self._of_metric(metric)[0]

    def _of_metric(self, metric: str | None) -> tuple[dict[TaskOnModel, MetricScale], SampleLooks]:
        with self._lock:
            if metric not in self._looks:
                scales = metric_scales(self._results, metric)
                self._looks[metric] = scales, SampleLooks(self.folder, SampleFilter(scales), full=False)
            return self._looks[metric]

    # ---- lists ----

    def facets(self, metric: str | None) -> dict[str, Any]:
        """Return names and counts: of tasks, models, categories, frequent answers and verdicts."""
        with self._held():
            if metric not in self._facets:
                self._facets[metric] = self._counted(self._judged_table(metric))
            return self._facets[metric]

    def _counted(self, table: str) -> dict[str, Any]:
        # The counts come first, and each looks its name up: the other way round, each name would look for its samples.
        named = (
            "SELECT x.name, c.count FROM (SELECT {1} AS code, count(*) AS count FROM {0} GROUP BY 1) c"
            " CROSS JOIN names x ON x.part = ? AND x.code = c.code ORDER BY c.code"
        )
        found = {part: self._run(named.format(table, part), part) for part in NAMED}
        answers = f"SELECT answer, count(*) FROM {table} WHERE answer != '' GROUP BY 1 ORDER BY 2 DESC, min(n) LIMIT ?"
        verdicts = dict(self._run(f"SELECT verdict, count(*) FROM {table} GROUP BY 1"))
        return {
            "total": self.total,
            "metrics": list(dict.fromkeys((HEADLINE, *(row["metric"] for row in task_rows(self._results))))),
            "tasks": _pairs(found["task"]),
            "models": _pairs(found["model"]),
            "categories": _pairs(found["category"]),
            "answers": _pairs(self._run(answers, _MOST_ANSWERS)),
            "verdicts": {name: verdicts.get(code, 0) for code, name in enumerate(VERDICTS)},
        }

    def matching(self, query: SampleQuery, match: str = "", flips: str = "") -> int:
        """Return how many samples match."""
        table, sql = self._prepared(query, match, flips)
        with self._held():
            key = (table, sql)
            if key not in self._counts:
                if len(self._counts) == _MOST_COUNTS:
                    self._counts.clear()
                ((count,),) = self._run(f"SELECT count(*) FROM {table} j WHERE {sql.where}", *sql.values)
                self._counts[key] = count
            return self._counts[key]

    def place(self, query: SampleQuery, match: str = "", flips: str = "") -> int | None:
        """Return where the sample ``query.find`` stands in the list, from 0; None if it is not there."""
        table, sql = self._prepared(query, match, flips)
        listed = f"SELECT j.n, row_number() OVER (ORDER BY {sql.order}) - 1 AS at FROM {table} j WHERE {sql.where}"
        with self._held():
            found = self._run(f"SELECT at FROM ({listed}) WHERE n = ?", *sql.values, query.find)
        return found[0][0] if found else None

    def lines(
        self, query: SampleQuery, offset: int, limit: int, match: str = "", flips: str = ""
    ) -> list[dict[str, Any]]:
        """Return a part of the list as JSON. ``match`` is what the full text is searched for; ``flips`` is a table."""
        table, sql = self._prepared(query, match, flips)
        chosen = f"SELECT j.n FROM {table} j WHERE {sql.where} ORDER BY {sql.order} LIMIT ? OFFSET ?"
        with self._held():
            numbers = [n for (n,) in self._run(chosen, *sql.values, limit, offset)]
            flipped = self._run(f"SELECT n, flip FROM {flips} WHERE n IN {_marks(numbers)}", *numbers) if flips else []
            found = self._found(numbers, table)
        words = {n: "won" if flip > 0 else "lost" for n, flip in flipped}
        looks = self._of_metric(query.metric)[1]
        lines = []
        for each, row in self._rows(found):
            line = sample_line(looks.of(row), each.n)
            if line["verdict"] != VERDICTS[each.verdict]:
                raise UnfitIndexError
            lines.append(line | ({"flip": words.get(each.n)} if flips else {}))
        return lines

    def _prepared(self, query: SampleQuery, match: str, flips: str) -> tuple[str, SampleSql]:
        with self._held():
            table = self._judged_table(query.metric)
        return table, sample_sql(query, flips=flips, words=self._words if match else "", match=match)

    # ---- rows ----

    def row(self, n: int) -> ResultRow:
        """Return a sample; one that the run does not have is an error."""
        if not 0 <= n < self.total:
            hint = f"It has {self.total:,}, numbered from 0."
            raise UsageError(f"this run has no sample {n}", where=str(self.folder), hint=hint)
        with self._held():
            found = self._found([n], "main.judged")
        return next(row for _, row in self._rows(found))

    def _found(self, numbers: Sequence[int], table: str) -> list[_Found]:
        names = "(SELECT raw FROM names WHERE part = '{0}' AND code = j.{0})"
        sql = (
            f"SELECT j.n, s.place, s.id, j.verdict, {names.format('task')}, {names.format('model')}"
            f" FROM {table} j JOIN samples s ON s.n = j.n WHERE j.n IN {_marks(numbers)}"
        )
        rows = self._run(sql, *numbers)
        found = {n: _Found(n, place, own, (task, model), verdict) for n, place, own, verdict, task, model in rows}
        return [found[n] for n in numbers if n in found]

    def _rows(self, found: Sequence[_Found]) -> Iterator[tuple[_Found, ResultRow]]:
        """Read rows, and check that they are those of the index."""
        rows = rows_at(self.folder, [each.place for each in found])
        for each in found:
            try:
                row = next(rows)
            except RunError as exc:  # every line could be read when the index was made
                raise UnfitIndexError from exc
            told = tuple(raw_bytes(name_of(row, part)) for part in ("id", "task", "model"))
            if told != (each.id, *each.names):
                raise UnfitIndexError
            yield each, row

    def samples(self) -> Iterator[IndexedSample]:
        """Yield what is known of all samples besides their texts; other threads do not wait for it."""
        with self._held():
            path = file_of(self._connection)
        with closing(open_read_only(path)) as connection:
            yield from indexed_samples(connection)

    # ---- words and temporary tables ----

    def attach_words(self, uri: str, table: str) -> None:
        """Add the file of the full-text index."""
        with self._held():
            if not self._words:
                self._run("ATTACH DATABASE ? AS words", uri)
                self._words = f"words.{table}"

    def flips(self, key: object, flips: Iterable[tuple[int, int]]) -> str:
        """Return the table of the samples that flipped: 1 for won, -1 for lost; it is made once for each key."""
        with self._held():
            return self._temporary(self._flips, key, "(n INTEGER PRIMARY KEY, flip INTEGER)", flips)

    def _judged_table(self, metric: str | None) -> str:
        """Return the table in which samples are judged by a metric; None: by the headline of each task."""
        if metric is None:
            return "main.judged"
        return self._temporary(
            self._judged, metric, JUDGED, _judged(self._connection, SampleFilter(self.scales(metric)))
        )

    def _temporary(self, made: dict[object, str], key: object, columns: str, rows: Iterable[tuple[Any, ...]]) -> str:
        """Return the table that was made for a key, or make it of the rows; of too many the oldest one goes."""
        if key not in made:
            if len(made) == _MOST_TABLES:
                self._run(f"DROP TABLE {made.pop(next(iter(made)))}")
                self._counts.clear()
            self._made += 1
            name = f"temp.made_{self._made}"
            self._run("BEGIN")
            try:
                self._run(f"CREATE TABLE {name} {columns}")
                marks = ", ".join("?" * (columns.count(",") + 1))
                self._connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
            except BaseException:
                self._run("ROLLBACK")
                raise
            self._run("COMMIT")
            made[key] = name
        return made[key]

    def _run(self, sql: str, *values: Any) -> list[Any]:
        with closing(self._connection.execute(sql, values)) as cursor:
            return cursor.fetchall()


def _pairs(rows: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"name": name, "count": count} for name, count in rows]


def _marks(values: Sequence[object]) -> str:
    return f"({', '.join('?' * len(values))})"
