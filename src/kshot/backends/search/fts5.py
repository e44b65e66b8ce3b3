"""SQLite's full-text search, from the standard library: for small corpora, and to reproduce published FTS5 results."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from kshot.backends.search.search_engine import Index, IndexSearchEngine, read_texts
from kshot.core.corpus import Corpus
from kshot.core.errors import BackendError
from kshot.core.protocols import IndexStore
from kshot.index.ranking import Found
from kshot.index.store import damaged, unwritten

_FILE = "passages.sqlite"
WORDS_AT_ONCE = 500
"""FTS5's parser takes quadratic time; scores are sums over the words, so longer queries are searched in parts."""
_NO_LIMIT = 2**53
"""More rows than there can be: the LIMIT where all are wanted."""
_PROGRESS_PASSAGES = 1000

# ``+rowid`` keeps SQLite from running the whole query once for each allowed row.
_ALL = "SELECT rowid, -rank FROM passages WHERE passages MATCH ? ORDER BY rank, rowid LIMIT ?"
_SOME = (
    "SELECT rowid, -rank FROM passages WHERE passages MATCH ? AND +rowid IN (SELECT position FROM allowed) "
    "ORDER BY rank, rowid LIMIT ?"
)


class Fts5(IndexSearchEngine):
    """FTS5's BM25 (k1 = 1.2, b = 0.75) over ``unicode61`` tokens.

    Double quotes are removed from a query; each word between white space is quoted, and the words are joined by OR. The
    statistics are those of the whole corpus, whichever part of it is searched.
    """

    name = "fts5"
    floor = 0.0

    def __init__(self) -> None:
        """Make sure that Python's SQLite has FTS5."""
        with closing(sqlite3.connect(":memory:")) as memory:
            try:
                memory.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
            except sqlite3.OperationalError as exc:
                raise BackendError(
                    f"this Python's SQLite {sqlite3.sqlite_version} comes without FTS5",
                    where=self.name,
                    hint="Use bm25, or a Python whose SQLite has it.",
                ) from exc
        self.fingerprint = "fts5 unicode61 words-or"

    def open(self, corpus: Corpus, store: IndexStore) -> Index:
        """Index the corpus, or open the file that holds it."""

        def build(folder: Path) -> None:
            rows = enumerate(read_texts(corpus, _clean, store, "fts5 index", step=_PROGRESS_PASSAGES))
            try:
                with closing(sqlite3.connect(folder / _FILE)) as file:
                    file.execute("PRAGMA journal_mode = OFF")  # the store removes an unfinished file
                    file.execute("PRAGMA synchronous = OFF")
                    file.execute("CREATE VIRTUAL TABLE passages USING fts5(text, content='', tokenize='unicode61')")
                    file.executemany("INSERT INTO passages (rowid, text) VALUES (?, ?)", rows)
                    file.execute("INSERT INTO passages (passages) VALUES ('optimize')")
                    file.commit()
            except sqlite3.Error as exc:
                raise unwritten(folder, exc) from exc

        key = {"engine": "fts5", "version": 1, "tokenizer": "unicode61", "corpus": corpus.digest}
        return _Fts5Index(store.built(self.name, key, build))


def _clean(text: str) -> str:
    """Replace NUL and lone surrogates, which SQLite does not take; both separate words."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


class _Fts5Index:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._allowed: Sequence[int] | None = None
        # immutable: many processes may read it, also on a file system that cannot be written
        path = str((folder / _FILE).absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        self._file = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        try:
            self._file.execute("PRAGMA temp_store = MEMORY")
            self._file.execute("CREATE TEMP TABLE allowed (position INTEGER PRIMARY KEY)")
            self._file.execute("SELECT rowid FROM passages LIMIT 1").fetchall()
        except sqlite3.Error as exc:
            raise damaged(folder, exc) from exc

    def search(self, queries: Sequence[str], k: int, among: Sequence[int] | None) -> list[Found]:
        """Search query by query."""
        try:
            if among is not None and among is not self._allowed:
                self._file.execute("DELETE FROM allowed")
                self._file.execute("INSERT INTO allowed SELECT value FROM json_each(?)", (json.dumps(list(among)),))
                self._allowed = among
            return [self._one(query, k, _ALL if among is None else _SOME) for query in queries]
        except sqlite3.Error as exc:
            raise damaged(self._folder, exc) from exc

    def _one(self, query: str, k: int, statement: str) -> Found:
        words = [f'"{word}"' for word in _clean(query).replace('"', "").split()]
        if len(words) > WORDS_AT_ONCE:
            rows = self._in_parts(words, statement)[:k]
        elif words:
            rows = self._file.execute(statement, (" OR ".join(words), k)).fetchall()
        else:
            rows = []
        return Found([row[0] for row in rows], [row[1] for row in rows])

    def _in_parts(self, words: Sequence[str], statement: str) -> list[tuple[int, float]]:
        total: dict[int, float] = {}
        for start in range(0, len(words), WORDS_AT_ONCE):
            part = " OR ".join(words[start : start + WORDS_AT_ONCE])
            for position, score in self._file.execute(statement, (part, _NO_LIMIT)):
                total[position] = total.get(position, 0.0) + score
        return sorted(total.items(), key=lambda row: (-row[1], row[0]))
