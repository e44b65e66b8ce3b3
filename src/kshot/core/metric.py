"""What a metric is: the measures that it reports, as data, and one function that scores an answer.

``Measure`` is a reported number; its ``Aggregate`` turns the values of all samples into it. The aggregates that run
folders name are in ``metrics.aggregates``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import total_ordering
from hashlib import sha256
from typing import Any, Protocol, runtime_checkable

from kshot.core.errors import DataError
from kshot.core.records import Absent, Request, RequestGenerator, Sample


class Aggregate(Protocol):
    """Turns the values of all samples into one number; None where these values have none, such as those of no group."""

    @property
    def key(self) -> str:
        """The name in a run folder, by which another process can compute it again; "" if only code knows how."""
        ...

    def __call__(self, values: Sequence[Any], /) -> float | None:
        """Return the number."""
        ...


@dataclass(frozen=True, slots=True)
class _Mean:
    key: str = "mean"

    def __call__(self, values: Sequence[Any], /) -> float:
        """Return the arithmetic mean of numbers; not a number when there are none."""
        if not values:
            return math.nan
        plain = [value for value in values if not isinstance(value, tuple | Observation)]
        if len(plain) != len(values):
            raise DataError("values that are tuples have no mean", hint="Define reduce(name, values) for this metric.")
        try:
            return math.fsum(plain) / len(plain)
        except OverflowError:  # their sum is beyond all floats, their mean is not
            return math.fsum(value / len(plain) for value in plain)


MEAN = _Mean()
"""The arithmetic mean of numbers."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A function of the values of all samples, which no run folder can name."""

    function: Callable[[Sequence[Any]], float | None]
    key: str = ""

    def __call__(self, values: Sequence[Any], /) -> float | None:
        """Return the number."""
        return self.function(values)


@total_ordering
class Observation:
    """A value that is no number, such as a reply with its reference, for an aggregate that needs those of all samples.

    Observations are equal, and have an order, by what they contain: a resample depends neither on the order of the
    samples nor on where a value lies in memory.
    """

    __slots__ = ("content", "place")

    def __init__(self, content: Any) -> None:
        """Compute its place among others from the text of its content; one that tells nothing comes first."""
        digest = sha256(repr(content).encode("utf-8", "surrogatepass")).digest()
        self.content = content
        self.place = b"" if isinstance(content, Absent) else bytes((digest[1] & _LOW_BITS, *digest[2:]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Observation) and self.place == other.place

    def __lt__(self, other: object) -> bool:
        """Whether it comes first; numbers come before observations."""
        return isinstance(other, Observation) and self.place < other.place

    def __hash__(self) -> int:
        return hash(self.place)

    def __repr__(self) -> str:
        """Show the content."""
        return repr(self.content)


def places_digest(values: Sequence[Observation]) -> bytes:
    """Return what tells these observations from others, under which what is computed of them can be remembered."""
    return sha256(b"".join(value.place for value in values)).digest()


_LOW_BITS = 0x0F
"""The first 12 bits of a digest have no say: so earlier versions drew, and a run gives the same intervals again."""


@dataclass(frozen=True, slots=True, repr=False)
class Measure:
    """A reported number, as data. Its repr is its name.

    ``bounds`` are the ends of the scale, which no interval exceeds; None: the scale is unknown. ``binary``: every value
    is one of the two ends, right or wrong; the interval of a share is then Wilson's. ``higher_is_better`` says which of
    two systems is ahead. ``detail``: it only breaks another one down; systems are not compared by it. ``token_budget``:
    it spends one, so passages of different sizes can be compared. ``rule``: where a method decides by several, the one
    whose answer is scored; see ``Explained.others``, and ``Explained.values`` for what was measured with the answer.
    ``grouped``: it is scored from all repeats of a sample at once, as a tuple. The measures of one metric share both.
    """

    name: str
    aggregate: Aggregate = MEAN
    bounds: tuple[float, float] | None = None
    binary: bool = False
    higher_is_better: bool = True
    detail: bool = False
    token_budget: bool = False
    rule: str = ""
    grouped: bool = False

    def __repr__(self) -> str:
        """Return the name."""
        return self.name


@runtime_checkable
class Metric(Protocol):
    """A metric scores one answer, and says how the scores of all samples become its measures."""

    @property
    def measures(self) -> Sequence[Measure]:
        """The numbers that it reports."""
        ...

    def score(self, sample: Sample, answer: Any, /) -> Mapping[str, Any] | RequestGenerator:
        """Return the value of one answer for each measure, by name. A metric that asks a model returns a generator.

        A value is what the aggregate takes: a number, a tuple of numbers that add up, or an ``Observation``. ``Absent``
        stands for one that the sample does not tell.
        """
        ...


class JudgedMetric(Metric, Protocol):
    """A metric that asks a judge; ``judged`` finds it."""

    def judge_requests(self, sample: Sample) -> Sequence[Request]:
        """Return what the judge would be asked about a sample, with a placeholder for the model's reply."""
        ...


def judged(metrics: Sequence[Metric]) -> list[JudgedMetric]:
    """Return the metrics that ask a judge; one that wraps another may have None for ``judge_requests``."""
    return [metric for metric in metrics if getattr(metric, "judge_requests", None) is not None]  # type: ignore[misc]  # it is there


def measure_names(metrics: Iterable[Metric]) -> list[str]:
    """Return the names of all measures."""
    return [measure.name for metric in metrics for measure in metric.measures]
