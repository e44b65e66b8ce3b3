"""Metrics whose figures are computed from sums: of every sample a few numbers are counted, and added up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from kshot.configs.evaluators.scores import SeesRows
from kshot.core.metric import MEAN, Aggregate
from kshot.core.records import Gold, Sample, reference
from kshot.metrics.aggregates import OfSums

Counts: TypeAlias = Sequence[float]
"""What is counted of one sample, or of several together."""


class Tally(SeesRows):
    """A metric of sums; a subclass says what is counted of a sample, and which figures the sums give.

    ``mean`` is the name of the figure that is the mean of those of single samples: two runs can be compared by it.
    """

    mean: str = ""

    @property
    def details(self) -> tuple[str, ...]:
        """All names but the first one."""
        return self.names[1:]

    def aggregate(self, name: str) -> Aggregate:
        """Return the figure of the sums, which only the metric knows."""
        return MEAN if name == self.mean else OfSums(lambda sums: self.figures(sums).get(name))

    def see(self, samples: Iterable[Sample]) -> None:
        """Look at no sample: the names are known."""

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Return what is counted of one sample."""
        raise NotImplementedError

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the figures of added counts, by name; a name that is left out has no sample."""
        raise NotImplementedError

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:
        """Count."""
        counts = tuple(float(count) for count in self.counts(sample, answer))
        alone = {self.mean: float(self.figures(counts)[self.mean])} if self.mean else {}
        return {name: alone.get(name, counts) for name in self.names}

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Score an answer without a row."""
        return self.score(Sample("", {}, Gold(reference)), prediction)


def gold_of(sample: Sample) -> Any:
    """Return the reference of a sample; None where it has none."""
    return None if sample.target is None else reference(sample.target)


def ratio(part: float, whole: float) -> float:
    """Return a part of a whole; 0 of nothing. It is for wholes that replies decide, such as attempted questions."""
    return part / whole if whole else 0.0


def shares(names: Iterable[str], sums: Counts) -> dict[str, float]:
    """Return the share of right answers in groups of samples, in percent; a group whose samples all failed has none.

    ``sums`` are right answers and samples, group by group.
    """
    pairs = zip(names, sums[::2], sums[1::2], strict=True)
    return {name: 100 * right / samples for name, right, samples in pairs if samples}
