"""The samples of one run for a viewer: lists that are filtered, sorted and searched, and pairs with another run.

The words of all samples are indexed when somebody searches for the first time.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kshot.core.errors import RunError, UsageError
from kshot.core.records import ResultRow
from kshot.report.sample_look import SampleLook, SampleLooks
from kshot.runs.compared_run import ComparedRun
from kshot.runs.record import read_record, read_summary
from kshot.runs.sample_filters import HEADLINE, MetricScale, SampleFilter, metric_scales, searched_texts, texts_in
from kshot.runs.sample_flips import PairedTask, paired_tasks, right_samples
from kshot.runs.samples_file import SAMPLES, WORDS, PassageTexts, PlacedRow, placed_rows
from kshot.viewer import index_file
from kshot.viewer.background import Abandoned, Background, Progress
from kshot.viewer.index_file import (
    VERDICTS,
    file_of,
    new_index,
    open_existing,
    open_read_only,
    samples_size,
    stamp_of,
    uri_of,
)
from kshot.viewer.opened_index import OpenedIndex, SampleQuery, UnfitIndexError

WORDS_VERSION = 2
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
    numbered = {part for part in ("answer", "target") if isinstance(row.get(part), int) and row.get("options")}
    texts = searched_texts({name: value for name, value in row.items() if name not in numbered})
    found = "\n".join(dict.fromkeys((*texts, *texts_in(row.get("judge")))))
    return spaced(found if found.isascii() else found.encode("utf-8", "replace").decode())


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


class NotReadyError(Exception):
    """Something is still being made."""

    def __init__(self, state: str, share: float) -> None:
        """Say what is made, and how far it is."""
        super().__init__(state)
        self.state, self.share = state, share

    def page(self) -> dict[str, Any]:
        """Return the JSON of ``…/samples``."""
        return {"state": self.state, "share": self.share, "total": 0, "matching": 0, "rows": []}

    def facets(self) -> dict[str, Any]:
        """Return the JSON of ``…/facets``; every state but "ready" has the page ask again."""
        named: dict[str, Any] = {name: [] for name in ("tasks", "models", "categories", "answers")}
        counts = {"total": 0, "metrics": [HEADLINE], "verdicts": dict.fromkeys(VERDICTS, 0)}
        return {"state": "indexing", "share": self.share} | counts | named


@dataclass(frozen=True, slots=True)
class Pairs:
    """Line numbers of paired samples: ``ours`` in rising order, and ``theirs`` beside it.

    ``flipped`` are the line numbers of samples that only one run gets right, ``won`` says whether that is this run.
    ``conflict`` says why no sample could be judged, where the runs have metrics of one name that are other measures.
    """

    ours: NDArray[np.int64]
    theirs: NDArray[np.int64]
    flipped: NDArray[np.int64]
    won: NDArray[np.bool_]
    conflict: str | None = None

    def counterparts(self, n: int) -> list[int]:
        """Return the samples of the other run that are paired with one of this run."""
        first, last = np.searchsorted(self.ours, [n, n + 1])
        return [int(each) for each in self.theirs[first:last]]

    def flips(self) -> Iterator[tuple[int, int]]:
        """Yield the samples that flipped, each with 1 for won and -1 for lost."""
        for n, won in zip(self.flipped.tolist(), self.won.tolist(), strict=True):
            yield n, 1 if won else -1


class _IndexedRun(ComparedRun):
    """A run whose scores are read from its index, which is much shorter than its samples."""

    def __init__(self, index: OpenedIndex, progress: Progress, share: float) -> None:
        super().__init__(read_record(index.folder), {})
        self._index, self._progress, self._share = index, progress, share
        self.lines = np.empty(index.total, dtype=np.int64)
        """The places of all lines, in their order."""

    def placed(self) -> Iterator[PlacedRow]:
        file = str(self._index.folder / SAMPLES)
        for each in self._index.samples():
            self.lines[each.n] = each.place
            if each.n % 1000 == 0:
                self._progress(self._share + 0.45 * each.n / len(self.lines))
            yield PlacedRow(each.row, each.place, f"{file}:{each.n + 1}")

    def numbers(self, places: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the line numbers of places."""
        return np.searchsorted(self.lines, places.astype(np.int64))


def pair_runs(one: OpenedIndex, other: OpenedIndex, metric: str | None, progress: Progress) -> Pairs:
    """Pair the samples of two runs, and judge them by a metric; None: by the headline of each task."""
    runs = _IndexedRun(one, progress, 0.0), _IndexedRun(other, progress, 0.45)
    pairs = list(paired_tasks(runs, one.scales(metric)))
    found = [_paired(pair, runs) for pair in pairs]
    ours, theirs, flipped, won = (np.concatenate(each) for each in zip(*found, strict=True))
    order, first = np.lexsort((theirs, ours)), np.unique(flipped, return_index=True)
    conflict = (
        None if any(pair.scale for pair in pairs) else next((each.conflict for each in pairs if each.conflict), None)
    )
    return Pairs(ours[order], theirs[order], first[0], won[first[1]], conflict)


def _paired(
    pair: PairedTask, runs: tuple[_IndexedRun, _IndexedRun]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return the columns of ``Pairs`` for one task."""
    nothing, none = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
    try:
        matched = pair.match()
    except RunError:
        if pair.scale is not None:
            raise
        return nothing, nothing, nothing, none  # no metric compares them, so that they need not fit together
    one, other = matched.scores
    ours, theirs = runs[0].numbers(one.places[matched.ours]), runs[1].numbers(other.places[matched.theirs])
    if pair.scale is None:
        return ours, theirs, nothing, none
    rights, others = right_samples(matched, pair.scale)
    flips = np.flatnonzero(rights != others)
    return ours, theirs, runs[0].numbers(one.places[matched.chosen()[0][flips]]), rights[flips]


T = TypeVar("T")

_VERSION = 100 * index_file.VERSION + WORDS_VERSION
_MOST_PAIRS = 8
_MAX_PAGE = 1_000
_MOST_TRIES = 10
_RETRY_SECONDS = 5.0
"""What failed is tried again after this time: there may be room on the disk again."""
_PATIENCE_SECONDS = 0.2
"""A page waits so long for what is nearly done, before it says that it is not ready."""


class SampleIndex:
    """The samples of a run folder. All methods may be called from any thread.

    The index is a file beside ``samples.jsonl`` (or in the user's cache), made once, in a thread. ``facets`` and
    ``page`` start it, and say so until it is ready. ``row``, ``scale`` and ``counterparts`` wait for it. When the
    files of the run change, it is made again. All raise ``RunError`` if the samples cannot be read, and ``UsageError``
    for a metric or a sample that the run does not have.
    """

    def __init__(self, folder: Path) -> None:
        """Take a run folder; nothing is read yet."""
        self.folder = folder
        self._lock = threading.RLock()
        self._stamp = ""
        self._index: Background[OpenedIndex] | None = None
        self._words: Background[str] | None = None
        self._pairs: dict[tuple[Any, ...], Background[Pairs]] = {}
        self.passages = PassageTexts(folder)
        self._mended = ""
        self._closed = False

    # ---- the index ----

    def start(self) -> Background[OpenedIndex]:
        """Begin to make the index in a thread, unless it is there; return it."""
        with self._lock:
            if self._closed:
                raise RunError("the viewer has been closed", where=str(self.folder))
            index = self._current()
            if index is None:
                stamp = self._stamp = stamp_of(self.folder, _VERSION)
                anew = self._mended == stamp
                index = Background(lambda progress: self._open(stamp, progress, anew=anew), "sample index")
                self._index = index
            return index

    def rest(self) -> None:
        """End the threads and close the files, until somebody asks again: who holds this index may go on."""
        with self._lock:
            self._drop()

    def close(self) -> None:
        """End the threads and close the files, for good."""
        with self._lock:
            self._closed = True
            self._drop()

    def _current(self) -> Background[OpenedIndex] | None:
        """Return the index, unless the files have changed since it was started, or it failed some time ago."""
        with self._lock:
            index = self._index
            if index is not None and index.is_done:
                failed = index.error is not None and time.monotonic() - index.ended > _RETRY_SECONDS
                if failed or self._stamp != stamp_of(self.folder, _VERSION):
                    self._drop()
            return self._index

    def _drop(self) -> None:
        for work in (self._index, self._words, *self._pairs.values()):
            if work is not None:
                work.abandon()
        if self._index is not None and self._index.is_done and self._index.error is None:
            self._index.result().close()
        self._index = self._words = None
        self._pairs = {}

    def _open(self, stamp: str, progress: Progress, *, anew: bool) -> OpenedIndex:
        summary = read_summary(self.folder)
        results = summary["results"] if summary is not None else []
        connection = None if anew else index_file.open_index(self.folder, stamp)
        if connection is None:
            looks = SampleLooks(self.folder, SampleFilter(metric_scales(results)), full=False)
            connection = _written(self.folder, lambda: index_file.build_index(self.folder, stamp, looks, progress))
        return OpenedIndex(self.folder, connection, results)

    def _ready(self) -> OpenedIndex:
        """Return the index, or say how far it is; an index that failed raises its error."""
        index = self.start()
        if not index.is_done:
            raise NotReadyError("indexing", index.share)
        return index.result()

    def _mending(self, work: Callable[[], T]) -> T:
        """Do something with the index; one that is damaged, or does not fit its samples, is made anew, once.

        One that was put to rest meanwhile is opened again.
        """
        try:
            return work()
        except Abandoned as exc:
            raise NotReadyError("indexing", 0.0) from exc
        except (sqlite3.Error, UnfitIndexError) as exc:
            with self._lock:
                if self._current() is not None and self._mended == self._stamp:
                    what = "samples.jsonl has changed while it was read, or the index beside it cannot be read"
                    raise RunError(what, where=str(self.folder), hint="Open the page again.") from exc
                self._mended = self._stamp
                self._drop()
            raise NotReadyError("indexing", 0.0) from exc

    def _patiently(self, work: Callable[[], T]) -> T:
        """Do something that waits for the index; the index may be made anew, or put to rest, meanwhile."""
        for _ in range(_MOST_TRIES):
            with suppress(NotReadyError):
                return self._mending(work)
        raise RunError("its samples are busy", where=str(self.folder), hint="Open the page again.")

    # ---- what pages ask ----

    def facets(self, metric: str | None = None) -> dict[str, Any]:
        """Return the names and counts by which samples can be filtered, as the JSON of ``…/facets``."""
        try:
            return {"state": "ready", "share": 1.0} | self._mending(lambda: self._ready().facets(metric))
        except NotReadyError as exc:
            return exc.facets()

    def page(
        self, query: SampleQuery, offset: int = 0, limit: int = 50, other: SampleIndex | None = None
    ) -> dict[str, Any]:
        """Return a part of the list of samples, as the JSON of ``…/samples``.

        ``state`` is "ready", "indexing" (the run or the other one is being read), "searching" (the words are being
        indexed, for the first search) or "pairing" (the two runs are being paired); until it is ready, ``rows`` is
        empty. ``other`` is the baseline of flips.
        """
        if query.flip is not None and other is None:
            raise UsageError("flip needs another run", hint="Name it: other=KEY.")
        try:
            return self._mending(lambda: self._page(query, offset, min(limit, _MAX_PAGE), other))
        except NotReadyError as exc:
            return exc.page()

    def _page(self, query: SampleQuery, offset: int, limit: int, other: SampleIndex | None) -> dict[str, Any]:
        index = self._ready()
        match = match_of(query.text)
        found: dict[str, Any] = {"state": "ready", "share": 1.0, "total": index.total, "matching": 0, "rows": []}
        if query.text and not match:
            return found  # only signs, which are no words
        if match:
            self._search(index)
        flips = "" if other is None else self._flips(index, query, other)
        matching = index.matching(query, match, flips)
        rows = index.lines(query, offset, limit, match, flips) if offset < matching else []
        place = {} if query.find is None else {"place": index.place(query, match, flips)}
        return found | {"matching": matching, "rows": rows} | place

    def row(self, n: int) -> ResultRow:
        """Return a sample by its line number, from 0."""
        return self._patiently(lambda: self.start().result().row(n))

    def scale(self, n: int, metric: str | None = None) -> MetricScale:
        """Return the scale by which a sample is right."""
        scales = self._patiently(lambda: self.start().result().scales(metric))
        return SampleFilter(scales).scale(self.row(n))

    def counterparts(self, n: int, other: SampleIndex) -> list[int]:
        """Return the line numbers of the samples of another run that are paired with this one; [] if there is none."""
        return self._patiently(lambda: self._paired(self.start().result(), None, other).result().counterparts(n))

    # ---- words and pairs ----

    def _search(self, index: OpenedIndex) -> None:
        """Attach the full-text index; raise ``NotReadyError`` while it is being built."""
        with self._lock:
            if self._words is None:
                stamp, anew = self._stamp, self._mended == self._stamp
                self._words = Background(lambda progress: self._find_words(stamp, progress, anew=anew), "words")
            words = self._words
        if not words.wait(_PATIENCE_SECONDS):
            raise NotReadyError("searching", words.share)
        index.attach_words(words.result(), TABLE)

    def _find_words(self, stamp: str, progress: Progress, *, anew: bool) -> str:
        found = None if anew else open_existing(self.folder, WORDS, stamp, _SCHEMA)
        if found is None:
            found = _written(self.folder, lambda: build_words(self.folder, stamp, progress))
        with closing(found):
            return uri_of(file_of(found))

    def _flips(self, index: OpenedIndex, query: SampleQuery, other: SampleIndex) -> str:
        """Return the table of samples that flipped; say so if the runs are still being paired."""
        other._ready()
        work = self._paired(index, query.metric, other)
        if not work.wait(_PATIENCE_SECONDS):
            raise NotReadyError("pairing", work.share)
        pairs = work.result()
        if query.flip is not None and pairs.conflict is not None:
            raise RunError(pairs.conflict, where=str(self.folder), hint="Leave the filter of flips out.")
        return index.flips((str(other.folder), other._stamp, query.metric), pairs.flips())

    def _paired(self, index: OpenedIndex, metric: str | None, other: SampleIndex) -> Background[Pairs]:
        theirs = other.start().result()
        with self._lock:
            key = (str(other.folder), other._stamp, metric)
            if key not in self._pairs or self._pairs[key].is_given_up:  # the other run may have been put to rest
                if len(self._pairs) == _MOST_PAIRS:
                    self._pairs.pop(next(iter(self._pairs))).abandon()
                self._pairs[key] = Background(lambda progress: pair_runs(index, theirs, metric, progress), "pairs")
            return self._pairs[key]


def _written(folder: Path, write: Callable[[], T]) -> T:
    """Write an index; an error of SQLite is one of the disk."""
    try:
        return write()
    except sqlite3.Error as exc:
        what = f"the index of its samples cannot be written: {exc}"
        raise RunError(what, where=str(folder), hint="Free some space, or set KSHOT_CACHE to another disk.") from exc
