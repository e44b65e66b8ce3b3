"""Rows of which a loader makes copies (``num_repeats``): the figures are those of all replies together."""

from __future__ import annotations

from collections.abc import Sequence

from kshot.configs.evaluators.repeats import JudgedRunsAverage, RunsAverage
from kshot.core.protocols import JudgedScorer
from kshot.core.records import Value
from kshot.metrics import Metric
from kshot.statistics.resampling import mean


class AllCopies(RunsAverage):
    """A metric over all copies of the rows, under its own names; a row with its copies stays one question."""

    def __init__(self, metric: Metric, copies: int) -> None:
        super().__init__(metric, copies)

    def __repr__(self) -> str:
        """Show the metric and the number of copies."""
        return f"AllCopies({self.metric!r}, {self.n})"

    def reduce(self, name: str, values: Sequence[Value]) -> float | None:
        """Measure all replies together."""
        if name not in self.metric.aggregates:
            return mean(values)
        split = [value for value in values if isinstance(value, tuple)]
        width = len(split[0]) // self.n
        parts = [each[at : at + width] for each in split for at in range(0, len(each), width)]
        return self.metric.reduce(name, [part if width > 1 else part[0] for part in parts])

    def _averaged(self, name: str) -> str:
        return name


class JudgedCopies(AllCopies, JudgedRunsAverage):
    """The same of a metric that asks a judge."""


def all_copies(metric: Metric, copies: int) -> AllCopies:
    """Return a metric over all copies of the rows."""
    return (JudgedCopies if isinstance(metric, JudgedScorer) else AllCopies)(metric, copies)
