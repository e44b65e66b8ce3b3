"""The class a metric is written as: rate one prediction against one reference; the rest follows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Answers, Asking, Evidence, Gold, Graded, Option, Sample, Target, Value


def reference(target: Target | None) -> Any:
    """The reference a metric compares with: an index, a list of texts, or whatever the dataset gave."""
    match target:
        case Option(index):
            return index
        case Answers(texts):
            return list(texts)
        case Gold(value):
            return value
        case Graded(grades):
            return grades
        case Evidence(parts):
            return parts
        case None:
            raise DataError("this sample has no reference to score against", hint="Give it a target or references.")


class Metric:
    """Subclass it, give it a ``name`` and a ``rate`` method, and put an instance into ``metrics``.

    ``rate(prediction, reference)`` returns a number on the reported scale (0-100 for shares), or a mapping of
    several names to values. A value may be a tuple of sums that ``reduce`` turns into the figure (corpus measures).
    ``bounds`` are the ends of the scale, which no interval leaves.
    """

    name: str = ""
    grouped: bool = False
    bounds: tuple[float, float] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which figures are reported."""
        return (self.name,)

    def rate(self, prediction: Any, reference: Any, /) -> float | Mapping[str, Value]:
        """Rate one prediction."""
        raise NotImplementedError(f"{type(self).__name__} must define rate(prediction, reference)")

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value] | Asking:
        """Rate a sample's answer against its target."""
        return self._named(self.rate(answer, reference(sample.target)))

    def reduce(self, name: str, values: Sequence[Value]) -> float:  # noqa: ARG002 - overridden where names differ
        """Sum up the values of one name: their mean, unless a metric says otherwise."""
        return mean(values)

    def values(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, list[float]]:
        """Give the figure of every single sample, by name."""
        return {
            name: [self.reduce(name, [value]) for value in rated]
            for name, rated in self._rated(predictions, references).items()
        }

    def __call__(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Score predictions against references outside any run: ``Em()(["Paris"], [["Paris"]])``."""
        return {name: self.reduce(name, rated) for name, rated in self._rated(predictions, references).items()}

    def __repr__(self) -> str:
        """Show the class and its settings, the same in every process."""
        settings = ", ".join(f"{key}={value!r}" for key, value in vars(self).items())
        return f"{type(self).__name__}({settings})"

    def _rated(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, list[Value]]:
        rows = [self._named(self.rate(p, r)) for p, r in zip(predictions, references, strict=True)]
        return {name: [row[name] for row in rows] for name in self.names}

    def _named(self, rated: float | Mapping[str, Value]) -> Mapping[str, Value]:
        return rated if isinstance(rated, Mapping) else {self.name: float(rated)}


def mean(values: Sequence[Value]) -> float:
    """Arithmetic mean of plain values; not a number when there are none."""
    if not values:
        return math.nan
    plain = [value for value in values if not isinstance(value, tuple)]
    if len(plain) != len(values):
        raise DataError("values that are tuples have no mean", hint="Define reduce(name, values) for this metric.")
    return math.fsum(plain) / len(plain)
