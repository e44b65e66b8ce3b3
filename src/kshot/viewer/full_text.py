"""Full-text search in the samples of a run: an index of their words, built when somebody searches for the first time.

Chinese, Japanese and Korean characters are words of their own, so that parts of a text without spaces are found.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from kshot.core.records import ResultRow
from kshot.report.sample_look import SampleLook, SampleLooks
from kshot.runs.sample_filters import SampleFilter, searched_texts, texts_in
from kshot.runs.samples_file import WORDS, placed_rows
from kshot.viewer.background import Progress
from kshot.viewer.index_place import new_index, open_existing, open_read_only, samples_size

VERSION = 2
TABLE = "words"
_SCHEMA = (
    f"""CREATE VIRTUAL TABLE {TABLE} USING fts5
    (text, content='', columnsize=0, tokenize='unicode61 remove_diacritics 2')""",
)
_BATCH = 500
_SEPARATE = re.compile(
    "(["
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\uac00-\ud7af"  # Hangul
    "])"
)
_PIECES = re.compile(r'"([^"]*)"|([^\s"]+)')


def open_words(folder: Path, stamp: str) -> sqlite3.Connection | None:
    """Open the words that were indexed from these files; None if there are none."""
    return open_existing(folder, WORDS, stamp, _SCHEMA)


def build_words(folder: Path, stamp: str, progress: Progress) -> sqlite3.Connection:
    """Read all samples, index their words, and open the index; memory does not grow with their number."""
    size, looks = samples_size(folder), SampleLooks(folder, SampleFilter({}), full=False)
    insert = f"INSERT INTO {TABLE} (rowid, text) VALUES (?, ?)"
    with new_index(folder, WORDS, stamp, _SCHEMA) as (connection, target):
        batch: list[tuple[int, str]] = []
        for n, placed in enumerate(placed_rows(folder)):
            batch.append((n, indexed_text(looks.of(placed.row))))
            if len(batch) == _BATCH:
                connection.executemany(insert, batch)
                connection.execute("COMMIT")
                connection.execute("BEGIN")
                batch.clear()
                progress(placed.place / size)
        connection.executemany(insert, batch)
    return open_read_only(target)


def indexed_text(look: SampleLook) -> str:
    """Return all that is searched in a sample: what ``kshot samples --contains`` looks into, and the judge's words.

    Examples above the question are left out, because they would find every sample. So are the numbers of options, which
    no page shows.
    """
    row = {**look.row, "prompt": [text for _, text in look.question.messages]} if look.shots else look.row
    found = "\n".join(dict.fromkeys(_all_texts(row)))
    return spaced(found if found.isascii() else found.encode("utf-8", "replace").decode())


def _all_texts(row: ResultRow) -> Iterator[str]:
    numbered = {part for part in ("answer", "target") if isinstance(row.get(part), int) and row.get("options")}
    yield from searched_texts({name: value for name, value in row.items() if name not in numbered})
    yield from texts_in(row.get("judge"))


def spaced(text: str) -> str:
    """Return a text with spaces around characters that are words of their own."""
    return text if text.isascii() else _SEPARATE.sub(r" \1 ", text)


def match_of(text: str) -> str:
    """Return words and "phrases" as a query of FTS5 that asks for all of them; the last word may go on.

    Everything is quoted, so that no sign has a meaning of its own. What has neither a letter nor a digit is left out;
    "" is the query of a text that has nothing else.
    """
    pieces = [
        (phrase or word, bool(word)) for phrase, word in _PIECES.findall(text.encode("utf-8", "replace").decode())
    ]
    known = [(spaced(piece.replace("\0", " ")), is_word) for piece, is_word in pieces if any(map(str.isalnum, piece))]
    quoted = [f'"{piece}"' for piece, _ in known]
    if known and known[-1][1] and text[-1:] == text[-1:].strip():
        quoted[-1] += "*"
    return " AND ".join(quoted)
