"""What a report needs of all samples of a run, from one pass over samples.jsonl: a few bytes for each of them."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kshot.core.errors import RunError
from kshot.core.records import ResultRow
from kshot.report.page.page_run import PageRun
from kshot.report.sample_look import read_response
from kshot.runs.headline import TaskOnModel, finite
from kshot.runs.sample_filters import SampleFilter, SampleVerdict, metric_scales, name_of
from kshot.runs.samples_file import SAMPLES, placed_rows, rows_at

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


BINS = 10
_EDGES = [at / BINS for at in range(1, BINS + 1)]
"""The upper ends of the bins; each belongs to the bin below it."""


@dataclass(slots=True)
class Bin:
    """The samples whose confidence lies between two edges."""

    samples: int = 0
    right: int = 0
    confidence: float = 0.0
    """The sum over the samples."""

    @property
    def accuracy(self) -> float:
        """The share of samples whose likeliest option is right."""
        return self.right / self.samples

    @property
    def mean_confidence(self) -> float:
        """The mean probability of the likeliest option."""
        return self.confidence / self.samples


@dataclass(slots=True)
class Calibration:
    """How far the probabilities that one model gives to options of one task can be trusted, in ten bins.

    The probability of an option is the softmax of the options' total log-probabilities. The confidence of a sample is
    the probability of its likeliest option, and the sample counts as right if that option is the right one, whatever
    rule the headline goes by. The expected calibration error is that of Guo et al. 2017 (arXiv:1706.04599): the mean,
    weighted by the samples in each bin, of the distance between accuracy and mean confidence.
    """

    bins: list[Bin] = field(default_factory=lambda: [Bin() for _ in range(BINS)])

    @property
    def samples(self) -> int:
        """How many samples were counted: those with two or more measured options, of which a known one is right."""
        return sum(each.samples for each in self.bins)

    @property
    def accuracy(self) -> float:
        """The share of samples whose likeliest option is right."""
        return sum(each.right for each in self.bins) / self.samples

    @property
    def confidence(self) -> float:
        """The mean probability of the likeliest option."""
        return sum(each.confidence for each in self.bins) / self.samples

    @property
    def error(self) -> float:
        """The expected calibration error, from 0 to 1."""
        gaps = (abs(each.right - each.confidence) for each in self.bins)
        return sum(gaps) / self.samples

    def add(self, confidence: float, *, right: bool) -> None:
        """Count a sample."""
        chosen = self.bins[min(bisect_left(_EDGES, confidence), BINS - 1)]
        chosen.samples += 1
        chosen.right += right
        chosen.confidence += confidence


def confidence_of(row: ResultRow) -> tuple[float, bool] | None:
    """Return the probability of the likeliest option of a sample, and whether it is right; None where none is known.

    Of options that are equally likely, the first one counts, as in the answers of kshot.
    """
    response = row.get("response")
    if not isinstance(response, list) or len(response) < 2 or row.get("failed"):  # noqa: PLR2004 - a choice
        return None
    if not isinstance(response[0], dict) or "logprob" not in response[0]:
        return None
    target = row.get("target")
    rights = [each for each in (target if isinstance(target, list) else [target]) if type(each) is int]
    logprobs = read_response(row, "").options.logprobs
    if not rights or len(logprobs) < 2:  # noqa: PLR2004 - a choice
        return None
    likeliest = _likeliest(logprobs)
    return None if likeliest is None else (likeliest[0], likeliest[1] in rights)


def _likeliest(logprobs: Sequence[float]) -> tuple[float, int] | None:
    """Return the largest softmax of log-probabilities, and where it stands; None if one of them is no number."""
    if any(finite(each) is None and each != -math.inf for each in logprobs):
        return None
    top = max(logprobs)
    if top == -math.inf:
        return None
    return 1 / math.fsum(math.exp(each - top) for each in logprobs), logprobs.index(top)


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
