"""Metrics whose figures are computed from sums: of every sample a few numbers are counted, and added up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kshot.configs.evaluators.scores import SeesRows
from kshot.core.records import Gold, Sample, Value, reference
from kshot.statistics.figures import OWN_AGGREGATE
from kshot.statistics.resampling import mean

Counts = tuple[float, ...]
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

    @property
    def aggregates(self) -> Mapping[str, str]:
        """Only the metric knows how sums become figures."""
        return {name: OWN_AGGREGATE for name in self.names if name != self.mean}

    def see(self, samples: Iterable[Sample]) -> None:
        """Look at no sample: the names are known."""

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Return what is counted of one sample."""
        raise NotImplementedError

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the figures of added counts, by name; a name that is left out has no sample."""
        raise NotImplementedError

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value]:
        """Count."""
        counts = tuple(float(count) for count in self.counts(sample, answer))
        alone = {self.mean: float(self.figures(counts)[self.mean])} if self.mean else {}
        return {name: alone.get(name, counts) for name in self.names}

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Value]:
        """Score an answer without a row."""
        return self.score(Sample("", {}, Gold(reference)), prediction)

    def reduce(self, name: str, values: Sequence[Value]) -> float | None:
        """Return the figure of the sums."""
        if name == self.mean:
            return mean(values)
        columns = zip(*(value for value in values if isinstance(value, tuple)), strict=True)
        return self.figures(tuple(math.fsum(column) for column in columns)).get(name)


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
