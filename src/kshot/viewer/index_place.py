"""Where the index of a run is kept, and when it still fits: beside samples.jsonl, or in the user's cache."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

from kshot.core.errors import RunError
from kshot.core.text_files import is_plain, regular_file
from kshot.core.work_folders import cache_folder
from kshot.runs.folder import SUMMARY
from kshot.runs.samples_file import SAMPLES

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
