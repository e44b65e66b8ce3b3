"""The samples of a run folder that a user chose, in their order; texts are read when they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kshot.core.records import ResultRow
from kshot.runs.sample_filters import SampleFilter
from kshot.runs.sample_order import sorted_places
from kshot.runs.samples_file import PlacedRow, placed_rows, rows_at

if TYPE_CHECKING:  # it imports numpy, which only a comparison needs
    from kshot.runs.sample_flips import FlippedSamples


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
