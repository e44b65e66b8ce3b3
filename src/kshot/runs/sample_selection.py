"""The samples of a run folder that a user chose, in their order; texts are read when they are shown."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kshot.core.records import ResultRow
from kshot.runs.record import RunRecord
from kshot.runs.sample_filters import SampleFilter, name_of, sample_filter, texts_in
from kshot.runs.samples_file import PlacedRow, placed_rows, rows_at

if TYPE_CHECKING:  # it imports numpy, which only a comparison needs
    from kshot.runs.sample_flips import FlippedSamples

_Key: TypeAlias = tuple[Any, ...] | None

_PIECES = re.compile(r"\d+|\D+")


def find_samples(
    record: RunRecord, flipped: str | Path | RunRecord | None = None, **criteria: Any
) -> Iterator[ResultRow]:
    """Return the samples that meet all criteria of ``sample_filter``, in the order of the run.

    ``flipped``: only those that exactly one of the run and this other one gets right.
    """
    wanted = sample_filter(record, **criteria)
    if flipped is None:
        return filter(wanted, record.iter_samples())
    from kshot.runs.compared_run import ComparedRun, open_run
    from kshot.runs.sample_flips import flipped_samples

    places = flipped_samples(record, open_run(flipped).record, wanted.chosen_scales()).counterparts
    placed = ComparedRun(record, {}).placed()
    return (each.row for each in placed if each.place in places and wanted(each.row))


@dataclass
class SampleSelection:
    """The samples of a folder that pass a filter, and that flipped if another run is given.

    It counts what it reads: all samples, those that are chosen, those that were yielded, and those of which the metric
    says neither right nor wrong.
    """

    folder: Path
    wanted: SampleFilter
    flipped: FlippedSamples | None = None
    total: int = field(default=0, init=False)
    matching: int = field(default=0, init=False)
    shown: int = field(default=0, init=False)
    unrated: int = field(default=0, init=False)

    def rows(
        self, order: str | None = None, limit: int | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[int, ResultRow]]:
        """Yield the samples that are shown, each after its place in the file. All are read, also beyond the limit."""
        if order is None and not reverse:
            for row, place, _ in self._chosen():
                if limit is None or self.shown < limit:
                    self.shown += 1
                    yield place, row
            return
        places = sorted_places(self._chosen(), order, self.wanted, reverse=reverse, limit=limit)
        for place, row in zip(places, rows_at(self.folder, places), strict=True):
            self.shown += 1
            yield place, row

    def _chosen(self) -> Iterator[PlacedRow]:
        for placed in placed_rows(self.folder):
            self.total += 1
            if self.wanted.verdicts is not None and self.wanted.scale(placed.row).verdict(placed.row) == "unrated":
                self.unrated += 1
            if (self.flipped is None or placed.place in self.flipped.counterparts) and self.wanted(placed.row):
                self.matching += 1
                yield placed


# ---- the order: only keys and places in the file are kept, however long the texts are ----


def sorted_places(
    chosen: Iterable[PlacedRow],
    order: str | None,
    filter_: SampleFilter,
    *,
    reverse: bool = False,
    limit: int | None = None,
) -> list[int]:
    """Return the places of samples in an order, or in that of the run.

    Those without a score or category come last, whatever the direction, and equal ones in the order of the run.
    """
    key_of = _keys(filter_).get(order or "")

    def with_keys() -> Iterator[tuple[bool, tuple[Any, ...], int, int]]:
        for number, (row, place, _) in enumerate(chosen):
            key = (number,) if key_of is None else key_of(row)
            known = key is not None
            yield known == reverse, key or (), -number if reverse else number, place

    if limit is None:
        found = sorted(with_keys(), reverse=reverse)
    else:
        found = (heapq.nlargest if reverse else heapq.nsmallest)(limit, with_keys())
    return [place for *_, place in found]


def _keys(filter_: SampleFilter) -> dict[str, Callable[[ResultRow], _Key]]:
    """Return what samples can be sorted by: ``score`` has the worst first, ``prompt`` and ``reply`` the shortest."""

    def score(row: ResultRow) -> _Key:
        scale = filter_.scale(row)
        found = None if row.get("failed") else scale.score(row)
        return None if found is None else (found if scale.upwards else -found,)

    return {
        "score": score,
        "id": lambda row: natural_key(name_of(row, "id")),
        "task": lambda row: natural_key(name_of(row, "task")),
        "category": lambda row: natural_key(name_of(row, "category")) if row.get("category") is not None else None,
        "prompt": lambda row: (sum(map(len, texts_in(row.get("prompt")))),),
        "reply": lambda row: (sum(map(len, texts_in(row.get("response")))),),
    }


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key by which 9 comes before 10, however many digits there are."""
    return tuple(
        (0, len(piece.lstrip("0")), piece.lstrip("0")) if piece.isdigit() else (1, 0, piece.casefold())
        for piece in _PIECES.findall(text)
    )
