"""BM25 by the package tantivy: an index that stays on disk, for corpora that memory should not hold."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kshot.core.extras import import_package
from kshot.index.ranking import Found
from kshot.index.store import damaged, unwritten

TANTIVY = "tantivy"

_WRITER_BYTES, _MAX_WRITER_THREADS = 128_000_000, 4
_TOKENIZER = "between_spaces"
_ROUNDING = 2e-6
"""Scores that differ by less than this share are equal: tantivy adds up float32 in no fixed order."""


def tantivy_package() -> Any:
    """Import the package tantivy."""
    return import_package("bm25:disk", TANTIVY)


def write_tantivy(folder: Path, texts: Iterable[str]) -> None:
    """Index texts into an empty folder; their words stand between white space."""
    tantivy = tantivy_package()
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("words", tokenizer_name=_TOKENIZER, index_option="freq")
    schema.add_unsigned_field("position", fast=True, indexed=True)
    try:
        index = tantivy.Index(schema.build(), path=str(folder))
        _register_tokenizer(index)
        writer = index.writer(_WRITER_BYTES, min(os.cpu_count() or 1, _MAX_WRITER_THREADS))
        try:
            for position, text in enumerate(texts):
                document = tantivy.Document()
                document.add_text("words", text)
                document.add_unsigned("position", position)
                writer.add_document(document)
            writer.commit()
            writer.wait_merging_threads()
        finally:
            del writer  # its threads end with it; an error would keep it, and they would write into a folder that goes
    except ValueError as exc:  # so tantivy reports an error of the disk
        raise unwritten(folder, exc) from exc


def _register_tokenizer(index: Any) -> None:
    """Let tantivy take words as they are: ``index.words`` has found them."""
    tantivy = tantivy_package()
    index.register_tokenizer(_TOKENIZER, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())


class TantivyIndex:
    """An index that ``write_tantivy`` wrote."""

    def __init__(self, folder: Path) -> None:
        """Open the folder."""
        self._folder, self._tantivy = folder, tantivy_package()
        self._filter: tuple[Sequence[int], Any] | None = None
        try:
            self._index = self._tantivy.Index.open(str(folder))
            _register_tokenizer(self._index)
            self._searcher, self._schema = self._index.searcher(), self._index.schema
        except (ValueError, OSError) as exc:
            raise damaged(folder, exc) from exc

    def search(self, queries: Sequence[Sequence[str]], k: int, among: Sequence[int] | None = None) -> list[Found]:
        """Return the ``k`` best texts for each query (a list of words), among these positions (ascending) or all."""
        try:
            return [self._one(query, k, among) for query in queries]
        except (ValueError, OSError) as exc:
            raise damaged(self._folder, exc) from exc

    def _one(self, words: Sequence[str], k: int, among: Sequence[int] | None) -> Found:
        counted = Counter(words)
        if not counted:
            return Found((), ())
        query = self._any_of(counted)
        if among is not None:
            must = self._tantivy.Occur.Must
            query = self._tantivy.Query.boolean_query([(must, self._within(among)), (must, query)])
        limit = k + 1  # the more are wanted, the fewer texts tantivy can skip
        while True:
            hits = self._searcher.search(query, limit, count=False).hits
            # every text that is as good as the k-th must be among the hits: of equal ones the lower position goes first
            if len(hits) < limit or hits[-1][0] < hits[k - 1][0] * (1 - _ROUNDING):
                break
            limit *= 4
        positions = self._searcher.fast_field_values("position", [address for _, address in hits])
        return _levelled([score for score, _ in hits], positions, k)

    def _any_of(self, counted: Counter[str]) -> Any:
        query, should = self._tantivy.Query, self._tantivy.Occur.Should
        parts = []
        for word, count in counted.items():
            part = query.term_query(self._schema, "words", word, "freq")
            parts.append((should, part if count == 1 else query.boost_query(part, float(count))))
        return parts[0][1] if len(parts) == 1 else query.boolean_query(parts)

    def _within(self, among: Sequence[int]) -> Any:
        """Return the filter for these positions, which adds nothing to a score; the last one is kept."""
        if self._filter is None or self._filter[0] is not among:
            query = self._tantivy.Query
            members = query.term_set_query(self._schema, "position", list(among))
            self._filter = among, query.const_score_query(members, 0.0)
        return self._filter[1]


def _levelled(scores: Sequence[float], positions: Sequence[int], k: int) -> Found:
    """Make scores equal that differ by rounding alone, and order those by position."""
    level: list[float] = []
    last = math.inf
    for score in scores:
        level.append(level[-1] if level and last - score <= last * _ROUNDING else score)
        last = score
    order = sorted(range(len(level)), key=lambda at: (-level[at], positions[at]))[:k]
    return Found([positions[at] for at in order], [level[at] for at in order])
