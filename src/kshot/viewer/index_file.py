"""The index of a run's samples: a SQLite file with the place of each line and what lists are filtered and sorted by.

Line ``n`` of ``samples.jsonl``, from 0, has the row ``n`` in each table. Names are stored as they are shown. The file
is beside ``samples.jsonl``, or in the user's cache.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias, get_args
from urllib.parse import quote

from kshot.core.errors import RunError
from kshot.core.records import ResultRow
from kshot.core.text_files import is_plain, regular_file
from kshot.core.visible import one_line
from kshot.core.work_folders import cache_folder
from kshot.report.page.sample_card import short_value
from kshot.report.sample_look import SampleLook, SampleLooks
from kshot.runs.folder import SUMMARY
from kshot.runs.sample_filters import MetricScale, SampleVerdict, name_of
from kshot.runs.sample_selection import natural_key
from kshot.runs.samples_file import INDEX, SAMPLES, PlacedRow, placed_rows
from kshot.viewer.background import Progress

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


# ---- where it is kept, and when it still fits ----


_CHUNK = 1 << 20
_MOST_SEALS = 10_000


def seal(path: Path) -> None:
    """Remember that an index was made here; where nothing can be written, it will be made again."""
    with suppress(OSError):
        place = _place(path)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _forget_old(place.parent)
        place.touch()


def is_sealed(path: Path) -> bool:
    """Whether an index is, byte for byte, one that was made here."""
    try:
        os.utime(_place(path))  # it is in use
    except OSError:
        return False
    return True


def _place(path: Path) -> Path:
    digest = blake2b(digest_size=32)
    with open(path, "rb", buffering=0, opener=regular_file) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return cache_folder() / "viewer" / "made" / digest.hexdigest()


def _forget_old(folder: Path) -> None:
    """Remove the older half of the seals, where there are very many."""
    with os.scandir(folder) as entries:
        seals = list(entries)
    if len(seals) >= _MOST_SEALS:
        for each in sorted(seals, key=lambda entry: entry.stat().st_mtime)[: len(seals) // 2]:
            Path(each).unlink(missing_ok=True)


APPLICATION_ID = 0x6B736874
"""The bytes "ksht", which SQLite writes into the head of a file."""

_STALE_SECONDS = 86_400.0
_MOST_TIMES, _SPARE_BYTES = 8, 1 << 22
"""An index is not larger than so many times its samples, and these bytes."""


def stamp_of(folder: Path, version: int) -> str:
    """Return what an index must have been made of to fit: the sizes and times of the files, and the format."""
    sizes: list[list[int] | None] = []
    for name in (SAMPLES, SUMMARY):
        found = None
        with suppress(OSError):
            found = (folder / name).stat()
        sizes.append(None if found is None else [found.st_size, found.st_mtime_ns])
    return json.dumps([version, *sizes])


def places(folder: Path, name: str) -> Iterator[Path]:
    """Yield where the index may be: beside the samples, or else in the user's cache."""
    yield folder / name
    digest = blake2b(os.fsencode(os.path.realpath(folder)), digest_size=12).hexdigest()
    yield cache_folder() / "viewer" / digest / name


def open_existing(folder: Path, name: str, stamp: str, schema: tuple[str, ...]) -> sqlite3.Connection | None:
    """Open the index of this stamp and schema, to be read only; None if there is none that can be trusted."""
    for path in places(folder, name):
        with suppress(OSError, sqlite3.Error):
            most = _MOST_TIMES * (folder / SAMPLES).stat().st_size + _SPARE_BYTES
            if not is_plain(path) or path.stat().st_size > most or not is_sealed(path):
                continue
            connection = open_read_only(path)
            if _fits(connection, stamp, schema):
                return connection
            connection.close()
    return None


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open a file that never changes in its place; nothing in its schema may call anything."""
    connection = sqlite3.connect(uri_of(path), uri=True, check_same_thread=False, isolation_level=None)
    _harden(connection)
    return connection


def uri_of(path: Path) -> str:
    """Return how SQLite opens a file to read it only."""
    return f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1"


def file_of(connection: sqlite3.Connection) -> Path:
    """Return the file that a connection has open; its path need not be UTF-8."""
    connection.text_factory = os.fsdecode
    try:
        return next(Path(path) for _, name, path in connection.execute("PRAGMA database_list") if name == "main")
    finally:
        connection.text_factory = str


def _harden(connection: sqlite3.Connection) -> None:
    for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "cache_size=-4096", "mmap_size=0"):
        connection.execute(f"PRAGMA {pragma}")


def samples_size(folder: Path) -> int:
    """Return the bytes of the samples, at least 1, to tell how far a reader is."""
    try:
        return max(1, (folder / SAMPLES).stat().st_size)
    except FileNotFoundError as exc:
        hint = f"{SAMPLES} is written when a run ends; until then its page shows the last ones."
        raise RunError("this run has no samples yet", where=str(folder), hint=hint) from exc


def _is_ours(path: Path) -> bool:
    """Whether a file is an index of kshot, of whatever version: only such a one is replaced."""
    with path.open("rb") as file:
        head = file.read(72)
    return head.startswith(b"SQLite format 3\0") and head[68:72] == APPLICATION_ID.to_bytes(4, "big")


def _fits(connection: sqlite3.Connection, stamp: str, schema: tuple[str, ...]) -> bool:
    """Whether an index has exactly the tables that kshot makes, and was made of these files."""
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        return False
    found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 100")}
    if found != _made_schema(schema):
        return False
    return connection.execute("SELECT stamp FROM made_of LIMIT 2").fetchall() == [(stamp,)]


def _made_schema(schema: tuple[str, ...]) -> set[str]:
    """Return the schema as SQLite stores it, with the tables that it adds of its own accord."""
    with closing(sqlite3.connect(":memory:")) as memory:
        for statement in (_MADE_OF, *schema):
            memory.execute(statement)
        return {sql for (sql,) in memory.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}


_MADE_OF = "CREATE TABLE made_of (stamp TEXT)"


# ---- a new index ----


@contextmanager
def new_index(
    folder: Path, name: str, stamp: str, schema: tuple[str, ...]
) -> Iterator[tuple[sqlite3.Connection, Path]]:
    """Fill a new index as a draft, which takes its place when the block ends; yield it and the place."""
    draft, target = _new_draft(folder, name)
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            _harden(connection)
            for pragma in ("journal_mode=OFF", "synchronous=OFF", f"application_id={APPLICATION_ID}"):
                connection.execute(f"PRAGMA {pragma}")
            for statement in (_MADE_OF, *schema):
                connection.execute(statement)
            connection.execute("BEGIN")
            connection.execute("INSERT INTO made_of VALUES (?)", (stamp,))
            yield connection, target
            if connection.in_transaction:
                connection.execute("COMMIT")
        seal(draft)
        draft.replace(target)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def _new_draft(folder: Path, name: str) -> tuple[Path, Path]:
    """Make an empty file beside the place of the index; in the cache, if the run folder cannot have one."""
    refused: OSError | None = None
    for path in places(folder, name):
        try:
            if path.parent != folder:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if os.path.lexists(path) and not (is_plain(path) and _is_ours(path)):
                continue  # somebody else's file, or a link to one
            _remove_stale(path)
            handle, draft = tempfile.mkstemp(prefix=f".{name}.", suffix=".draft", dir=path.parent)
        except OSError as exc:
            refused = exc
            continue
        os.close(handle)
        return Path(draft), path
    what = f"the index of its samples cannot be written: {refused.strerror if refused else 'its name is taken'}"
    hint = "Make the run folder writable, or set KSHOT_CACHE to a folder that is."
    raise RunError(what, where=str(folder), hint=hint)


def _remove_stale(path: Path) -> None:
    """Remove drafts of processes that were killed."""
    for draft in path.parent.glob(f".{path.name}.*.draft"):
        with suppress(OSError):
            if is_plain(draft) and time.time() - draft.lstat().st_mtime > _STALE_SECONDS:
                draft.unlink()
