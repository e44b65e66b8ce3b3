"""What a report needs of all samples of a run, from one pass over ``samples.jsonl``: a few bytes for each of them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kshot.core.errors import RunError
from kshot.core.records import ResultRow
from kshot.report.page.calibration import Calibration, confidence_of
from kshot.report.page.page_run import PageRun
from kshot.runs.headline import TaskOnModel
from kshot.runs.sample_filters import SampleFilter, SampleVerdict, metric_scales, name_of
from kshot.runs.samples_file import SAMPLES, placed_rows, rows_at

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERDICT_LETTERS: dict[SampleVerdict, str] = {"right": "r", "partly": "p", "wrong": "w", "failed": "f", "unrated": "u"}
"""How files for pages write a verdict."""


@dataclass
class SamplesRead:
    """Where each sample of a run stands, its verdict and its task; and what was computed of all on the way.

    ``places`` are bytes of the file, or numbers of rows in memory. ``tasks`` are numbers of ``names``.
    """

    run: PageRun
    wanted: SampleFilter
    places: array[int] = field(default_factory=lambda: array("Q"))
    verdicts: bytearray = field(default_factory=bytearray)
    tasks: array[int] = field(default_factory=lambda: array("L"))
    names: dict[TaskOnModel, int] = field(default_factory=dict)
    calibrations: dict[TaskOnModel, Calibration] = field(default_factory=dict)
    failures: dict[TaskOnModel, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.places)

    def rows(self, numbers: Iterable[int]) -> Iterator[ResultRow]:
        """Yield the rows of samples, by their numbers, in this order."""
        record = self.run.record
        if record.path is None:
            return (record.samples[at] for at in numbers)
        return rows_at(record.path, (self.places[at] for at in numbers))

    def numbers_at(self, places: NDArray[np.uint64]) -> list[int]:
        """Return the numbers of the samples that begin at these bytes of the file."""
        import numpy as np

        known = np.array(self.places, dtype=np.uint64)
        if not np.isin(places, known).all():
            raise RunError("the file has changed while it was read", where=f"{self.run.name}: {SAMPLES}")
        numbers: list[int] = np.searchsorted(known, places).tolist()
        return numbers

    def _add(self, row: ResultRow, place: int) -> None:
        key = name_of(row, "task"), name_of(row, "model")
        verdict = self.wanted.scale(row).verdict(row)
        self.places.append(place)
        self.verdicts += VERDICT_LETTERS[verdict].encode()
        self.tasks.append(self.names.setdefault(key, len(self.names)))
        if verdict == "failed":
            self.failures.setdefault(key, str(row["failed"]))
        elif (found := confidence_of(row)) is not None:
            self.calibrations.setdefault(key, Calibration()).add(found[0], right=found[1])


def read_run_samples(run: PageRun) -> SamplesRead:
    """Read the samples of a run once; a run without ``samples.jsonl`` has none."""
    record = run.record
    read = SamplesRead(run, SampleFilter(metric_scales(record.results)))
    if record.path is None:
        for at, row in enumerate(record.samples):
            read._add(row, at)  # noqa: SLF001 - of this module
    elif (record.path / SAMPLES).exists():
        for placed in placed_rows(record.path):
            read._add(placed.row, placed.place)  # noqa: SLF001 - of this module
    return read
