"""The base class of metrics: a subclass rates one prediction against one reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Absent, AskFailed, Failed, RequestGenerator, Sample, Value, reference
from kshot.core.visible import without_text
from kshot.statistics.figures import OWN_AGGREGATE
from kshot.statistics.resampling import mean


class Metric:
    """Subclass it, give it a ``name`` and a ``rate`` method, and put an instance into ``metrics``.

    ``rate(prediction, reference)`` returns a number on the reported scale (0-100 for shares), or a mapping of
    several names to values. A value may be a tuple of sums that ``reduce`` turns into the figure (corpus measures);
    ``Absent`` stands for one that the sample does not tell.
    ``bounds`` are the ends of the scale, which no interval exceeds; None: the scale is unknown. ``binary``:
    every value is one of the two ends, right or wrong; the interval of a share is then Wilson's.
    ``higher_is_better`` says which of two systems is ahead. ``details`` are names that break another one down,
    ``token_budgeted`` those by which passages of different sizes can be compared. A ``grouped`` metric gets all repeats
    of a sample as one tuple. ``rule`` names the rule whose answer it scores, where a method decides by several.
    """

    name: str = ""
    grouped: bool = False
    rule: str = ""
    bounds: tuple[float, float] | None = None
    binary: bool = False
    higher_is_better: bool = True

    @property
    def details(self) -> tuple[str, ...]:
        """Those of its names that break another one down; systems are not compared by them."""
        return ()

    @property
    def token_budgeted(self) -> tuple[str, ...]:
        """Those of its names that spend a token budget."""
        return ()

    @property
    def aggregates(self) -> Mapping[str, str]:
        """By name: the rule of ``metrics.aggregates`` by which values become the figure, where that is not the mean.

        ``own``: only the metric itself knows the rule, so finished runs are not compared by it.
        """
        return {} if type(self).reduce is Metric.reduce else dict.fromkeys(self.names, OWN_AGGREGATE)

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which figures are reported."""
        return (self.name,)

    def rate(self, prediction: Any, reference: Any, /) -> float | Mapping[str, Value | Absent]:
        """Rate one prediction against one reference."""
        raise NotImplementedError(f"{type(self).__name__} must define rate(prediction, reference)")

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value | Absent] | RequestGenerator:
        """Rate the answer of a sample against its target."""
        if sample.target is None:
            raise DataError("this sample has no reference to score against", hint="Give it a target or references.")
        return self._named(self.rate(answer, reference(sample.target)))

    def reduce(self, name: str, values: Sequence[Value]) -> float | None:  # noqa: ARG002 - a subclass may reduce each name in its own way
        """Return the figure of one name, by default the mean of its values; None where tuples have no figure."""
        return mean(values)

    def values(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, list[float | None]]:
        """Return the figure of every single sample, by name; None where it has none."""
        return {
            name: [self.reduce(name, [value]) for value in rated]
            for name, rated in self._rated(predictions, references).items()
        }

    def __call__(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Score predictions against references outside any run: ``Em()(["Paris"], [["Paris"]])``."""
        figures = {name: self.reduce(name, rated) for name, rated in self._rated(predictions, references).items()}
        return {name: figure for name, figure in figures.items() if figure is not None}

    def __repr__(self) -> str:
        """Show the class and its settings, the same in every process."""
        settings = ", ".join(f"{key}={value!r}" for key, value in vars(self).items())
        return f"{type(self).__name__}({settings})"

    def _rated(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, list[Value]]:
        rows = [self._named(self.rate(p, r)) for p, r in zip(predictions, references, strict=True)]
        columns = {name: [row[name] for row in rows] for name in self.names}
        told = {name: [value for value in values if not isinstance(value, Absent)] for name, values in columns.items()}
        return {name: values for name, values in told.items() if len(values) == len(rows)}

    def _named(self, rated: float | Mapping[str, Value | Absent]) -> Mapping[str, Value | Absent]:
        if isinstance(rated, Mapping):
            return rated
        if lost := without_text(rated):
            raise AskFailed(Failed("score", f"{self.name} gave {lost}, which is not a number"))
        return {self.name: float(rated)}
