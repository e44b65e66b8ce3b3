"""The figures of a task as metrics of kshot: each reads the value that was measured with the answer of a document.

Shares are figures of 0 to 100, as everywhere in kshot; what a function of the task measures on another scale keeps it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Absent, AskFailed, Failed, Sample, Value
from kshot.metrics import Metric
from kshot.metrics.aggregates import aggregate
from kshot.metrics.kept_values import KeptValue, keep, kept_value
from kshot.statistics.figures import OWN_AGGREGATE
from kshot.statistics.resampling import mean

PERCENT = (0.0, 100.0)


class DocumentFigure(Metric):
    """A figure over the values of documents, under one name."""

    scale = 1.0
    """How many times lm-eval's figure it is."""

    def __init__(self, name: str, *, higher_is_better: bool) -> None:
        self.name = self.rule = name
        self.higher_is_better = higher_is_better

    def fit(self, values: Sequence[Any]) -> None:
        """See the values of all documents before any of them is scored; ``Absent`` stands for a missing one."""

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value | Absent]:  # noqa: ARG002 - it was measured
        """Return the value of a document."""
        return {self.name: answer if isinstance(answer, Absent) else self.value(answer)}

    def value(self, measured: Any) -> Value:
        """Return a value in the form that is summed up."""
        raise NotImplementedError


class MeanFigure(DocumentFigure):
    """The mean of numbers. ``share``: they are 0 to 1 and shown as percentages; None: if all of them are.

    ``skip_nan``: a document whose value is not a number has none.
    """

    def __init__(self, name: str, *, higher_is_better: bool, share: bool | None, skip_nan: bool = False) -> None:
        super().__init__(name, higher_is_better=higher_is_better)
        self._share, self._partial, self._skip_nan = share, skip_nan, skip_nan
        self._set_scale(share=bool(share))

    def _set_scale(self, *, share: bool) -> None:
        self.scale, self.bounds = (100.0, PERCENT) if share else (1.0, None)
        self.binary = share

    def fit(self, values: Sequence[Any]) -> None:
        """See whether the values are shares, and whether all documents have one."""
        told = [_number(value, self.name) for value in values if not isinstance(value, Absent)]
        self._partial = self._skip_nan or 0 < len(told) < len(values)
        if self._share is None:
            self._set_scale(share=all(0 <= value <= 1 for value in told if not math.isnan(value)))

    @property
    def aggregates(self) -> Mapping[str, str]:
        """The mean of all documents needs no mention; that of some has a rule of its own."""
        return {self.name: OWN_AGGREGATE} if self._partial else {}

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value | Absent]:
        """Return the value of a document; a document that has none, where others have, adds nothing."""
        missing = isinstance(answer, Absent) or (self._skip_nan and math.isnan(_number(answer, self.name)))
        return {self.name: (0.0, 0.0)} if missing and self._partial else super().score(sample, answer)

    def value(self, measured: Any) -> Value:
        """Return the number on the scale of the figure; with a count where not all documents have one."""
        number = _finite(_number(measured, self.name) * self.scale, self.name)
        return (number, 1.0) if self._partial else number

    def reduce(self, name: str, values: Sequence[Value]) -> float | None:  # noqa: ARG002 - there is one name
        """Return the mean of the documents that have a value; None where none has."""
        if not self._partial:
            return mean(values)
        numbers = [value for value in values if isinstance(value, tuple)]
        count = math.fsum(each[1] for each in numbers)
        return math.fsum(each[0] for each in numbers) / count if count else None


class SumsFigure(DocumentFigure):
    """A figure that is computed from sums by a rule of ``metrics.aggregates``."""

    def __init__(
        self,
        name: str,
        rule: str,
        parts: Callable[[Any], tuple[float, ...]],
        *,
        higher_is_better: bool,
        bounds: tuple[float, float],
        scale: float = 1.0,
    ) -> None:
        super().__init__(name, higher_is_better=higher_is_better)
        self._rule, self._parts, self.bounds, self.scale = rule, parts, bounds, scale

    @property
    def aggregates(self) -> Mapping[str, str]:
        """The rule, by which runs can be compared."""
        return {self.name: self._rule}

    def value(self, measured: Any) -> Value:
        """Return what a document adds to the sums."""
        try:
            return tuple(_finite(part, self.name) for part in self._parts(measured))
        except (TypeError, ValueError) as exc:
            raise DataError(f"{self.name} cannot be computed from {measured!r:.80}: {exc}") from exc

    def reduce(self, name: str, values: Sequence[Value]) -> float | None:  # noqa: ARG002 - there is one name
        """Return the figure of the sums."""
        first = values[0]
        reduce = aggregate(self._rule, len(first) if isinstance(first, tuple) else 1)
        if reduce is None:
            raise DataError(f"{self.name} cannot be computed from {first!r:.80}")
        return reduce(values)


class WholeFigure(DocumentFigure):
    """A figure that an aggregation computes from the values of all documents, whatever these are.

    ``compute`` returns the figure of some values, or raises a DataError. ``lenient``: where it fails for a part of the
    documents, such as a single one, that part has no figure; where it fails for all, ``fit`` says so. ``share``: the
    figure is shown as a percentage if it is 0 to 1.
    """

    def __init__(
        self,
        name: str,
        compute: Callable[[Sequence[Any]], Any],
        *,
        higher_is_better: bool,
        bounds: tuple[float, float] | None = None,
        scale: float = 1.0,
        lenient: bool = False,
        share: bool = False,
    ) -> None:
        super().__init__(name, higher_is_better=higher_is_better)
        self._compute, self.bounds, self.scale = compute, bounds, scale
        self._lenient, self._share = lenient, share
        self._kept: list[KeptValue] = []
        self._known: dict[tuple[float, ...], float | None] = {}

    def __repr__(self) -> str:
        """Show the name alone: values are not settings."""
        return f"{type(self).__name__}({self.name!r})"

    def fit(self, values: Sequence[Any]) -> None:
        """Refuse values of which there is no figure."""
        told = [value for value in values if not isinstance(value, Absent)]
        found = _number(self._compute(told), self.name) if told else 0.0
        if self._share and 0 <= found <= 1:
            self.scale, self.bounds = 100.0, PERCENT

    def value(self, measured: Any) -> Value:
        """Keep the value, and return its number."""
        kept = keep(measured)
        self._kept.append(kept)
        return (float(kept.number), 1.0)

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value | Absent]:
        """Return the value of a document; one without a value takes no part."""
        return {self.name: (-1.0, 1.0)} if isinstance(answer, Absent) else super().score(sample, answer)

    def reduce(self, name: str, values: Sequence[Value]) -> float | None:  # noqa: ARG002 - there is one name
        """Compute the figure of these documents; of sums of values there is none."""
        numbers = [value for value in values if isinstance(value, tuple)]
        if any(times != 1.0 for _, times in numbers):
            return None
        key = tuple(number for number, _ in numbers if number >= 0)
        if key not in self._known:
            self._known[key] = self._figure([kept_value(number) for number in key])
        return self._known[key]

    def _figure(self, values: Sequence[Any]) -> float | None:
        if not values:
            return None
        try:
            found = _number(self._compute(values), self.name) * self.scale
        except DataError:
            if not self._lenient:
                raise
            return None
        return found if math.isfinite(found) else None


class UnlistedFigures(Metric):
    """The figures of the names that a function gives and ``metric_list`` does not have: they are known at the end."""

    def __init__(self, made: Callable[[str], DocumentFigure]) -> None:
        """``made``: makes the figure of a name."""
        self._made = made
        self.figures: dict[str, DocumentFigure] = {}

    def __repr__(self) -> str:
        """Show the names."""
        return f"{type(self).__name__}({list(self.figures)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names that were given."""
        return tuple(self.figures)

    @property
    def aggregates(self) -> Mapping[str, str]:
        """The rules of its figures."""
        return {name: rule for figure in self.figures.values() for name, rule in figure.aggregates.items()}

    def fit(self, values: Sequence[Mapping[str, Any]]) -> None:
        """See the values of all documents, by name."""
        for name in dict.fromkeys(name for each in values for name in each):
            self.figures[name] = self._made(name)
            self.figures[name].fit([each.get(name, NO_VALUE) for each in values])

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value | Absent]:
        """Return the values of a document; ``answer``: a mapping of what was measured."""
        found: dict[str, Value | Absent] = {}
        for name, figure in self.figures.items():
            found |= figure.score(sample, answer.get(name, NO_VALUE))
        return found

    def reduce(self, name: str, values: Sequence[Value]) -> float | None:
        """Return the figure of a name."""
        return self.figures[name].reduce(name, values)


NO_VALUE = Absent("the task gives no value for it")


def _number(value: Any, name: str) -> float:
    if not isinstance(value, int | float):
        raise DataError(f"a value of {name} is {value!r:.80}, which is no number")
    return float(value)


def _finite(number: float, name: str) -> float:
    """Return a number; a document whose value is not finite is a failed sample: it tells nothing."""
    if not math.isfinite(number):
        raise AskFailed(Failed("no_number", f"{name} is {number}"))
    return number
