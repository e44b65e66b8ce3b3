"""The base class of metrics: a subclass rates one prediction against one reference; and metrics of parts of answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from types import FunctionType
from typing import Any, Literal, TypeAlias

from kshot.core.errors import DataError, UsageError
from kshot.core.metric import MEAN, Aggregate, Measure, Metric as AnyMetric, Observation
from kshot.core.records import Absent, AskFailed, Failed, Request, RequestGenerator, Sample, reference
from kshot.core.visible import without_text
from kshot.statistics.figures import OWN_AGGREGATE

PERCENT = (0.0, 100.0)
"""The scale of shares."""


class RatedMetric:
    """Subclass it, give it a ``name`` and a ``rate`` method, and put an instance into ``metrics``.

    ``rate(prediction, reference)`` returns a number on the reported scale (0-100 for shares); or, for a metric with
    several ``measures``, a mapping of their names to values. ``Absent`` stands for a value that the sample does not
    tell. ``bounds``, ``binary`` and ``higher_is_better`` are those of the measure: see ``Measure``.

    A figure is the mean of its values, unless ``reduce(name, values)`` is defined: values may then be anything that has
    a text of its own, and ``aggregates`` may name a rule of ``metrics.aggregates``, by which runs are then compared.
    """

    name: str = ""
    bounds: tuple[float, float] | None = None
    binary: bool = False
    higher_is_better: bool = True
    needs_reference: bool = True
    """Whether there must be a reference; otherwise it gets None."""

    @property
    def measures(self) -> Sequence[Measure]:
        """The numbers that it reports: one under its name, from its attributes."""
        return measures_of(self)

    def rate(self, prediction: Any, reference: Any, /) -> Any:
        """Rate one prediction against one reference."""
        raise NotImplementedError(f"{type(self).__name__} must define rate(prediction, reference)")

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any] | RequestGenerator:
        """Rate the answer of a sample against its target."""
        if not self.needs_reference:
            return self._named(self.rate(answer, None))
        if sample.target is None:
            raise DataError("this sample has no reference to score against", hint="Give it a target or references.")
        return self._named(self.rate(answer, reference(sample.target)))

    def reduce(self, name: str, values: Sequence[Any]) -> float | None:  # noqa: ARG002 - a subclass may reduce each name in its own way
        """Return the figure of one name, by default the mean of its values; None where the values have no figure."""
        return MEAN(values)

    def values(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, list[float | None]]:
        """Return the figure of every single sample, by name; None where it has none."""
        return {
            measure.name: [measure.aggregate([value]) for value in rated]
            for measure, rated in self._rated(predictions, references)
        }

    def __call__(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Score predictions against references outside any run: ``Em()(["Paris"], [["Paris"]])``."""
        figures = {measure.name: measure.aggregate(rated) for measure, rated in self._rated(predictions, references)}
        return {name: figure for name, figure in figures.items() if figure is not None}

    def __repr__(self) -> str:
        """Show the class and its settings, the same in every process."""
        settings = ", ".join(f"{key}={value!r}" for key, value in vars(self).items())
        return f"{type(self).__name__}({settings})"

    def _rated(self, predictions: Sequence[Any], references: Sequence[Any]) -> list[tuple[Measure, list[Any]]]:
        """Return the measures that every sample tells, with their values."""
        rows = [self._named(self.rate(p, r)) for p, r in zip(predictions, references, strict=True)]
        columns = [(measure, [row[measure.name] for row in rows]) for measure in self.measures]
        return [(measure, values) for measure, values in columns if not any(isinstance(v, Absent) for v in values)]

    def _named(self, rated: Any) -> Mapping[str, Any]:
        if isinstance(rated, Mapping):
            return rated
        if lost := without_text(rated):
            raise AskFailed(Failed("score", f"{self.name} gave {lost}, which is not a number"))
        return {self.name: rated if _reduces(self) and not isinstance(rated, Real) else float(rated)}


def _reduces(metric: RatedMetric) -> bool:
    return type(metric).reduce is not RatedMetric.reduce


@dataclass(frozen=True, slots=True)
class _Reduced:
    """What ``reduce`` of a metric makes of the values of one name."""

    metric: RatedMetric
    name: str
    key: str

    def __call__(self, values: Sequence[Any], /) -> float | None:
        """Return the figure."""
        if any(isinstance(value, Observation) for value in values):
            values = [value.content if isinstance(value, Observation) else value for value in values]
        return self.metric.reduce(self.name, values)


def measures_of(metric: RatedMetric) -> tuple[Measure, ...]:
    """Return the measures that a metric's attributes describe.

    Older metrics say by further attributes what ``Measure`` has: ``names``, and those of them that are ``details`` or
    ``token_budgeted``; ``rule`` and ``grouped``.
    """
    told = partial(getattr, metric)
    return tuple(
        Measure(
            name,
            _aggregate(metric, name),
            metric.bounds,
            binary=metric.binary,
            higher_is_better=metric.higher_is_better,
            detail=name in told("details", ()),
            token_budget=name in told("token_budgeted", ()),
            rule=told("rule", ""),
            grouped=bool(told("grouped", None)),
        )
        for name in told("names", (metric.name,))
    )


def _aggregate(metric: RatedMetric, name: str) -> Aggregate:
    """Return the mean, or ``reduce`` with the key that ``aggregates`` gives it: by default none."""
    if not _reduces(metric):
        return MEAN
    keys: Mapping[str, str] | None = getattr(metric, "aggregates", None)
    key = "" if keys is None else keys.get(name, MEAN.key)
    return _Reduced(metric, name, "" if key == OWN_AGGREGATE else key)


class FunctionMetric(RatedMetric):
    """A function of a prediction and its reference that gives a number, as a metric under the function's name."""

    def __init__(self, function: Callable[[Any, Any], float]) -> None:
        self.function = function
        self.name = getattr(function, "func", function).__name__

    def __repr__(self) -> str:
        """Show the name: a function has no text of its own."""
        return f"{type(self).__name__}({self.name})"

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Call the function."""
        return self.function(prediction, reference)


def as_metric(given: Any) -> Any:
    """Return a function of a prediction and its reference as a metric; anything else stays as it is."""
    if not isinstance(given, FunctionType | partial):
        return given
    try:
        inspect.signature(given).bind("prediction", "reference")
    except TypeError:
        return given
    return FunctionMetric(given)


Metric = RatedMetric
"""Its public name, ``kshot.Metric``."""


def over(
    metric: AnyMetric, part: Callable[[Any], Any], sample: Callable[[Sample], Sample] = lambda whole: whole
) -> AnyMetric:
    """Return a metric of a part of each answer; ``sample`` gives the sample that the part is an answer to."""
    return _Over(metric, part, sample)


@dataclass(frozen=True)
class _Over:
    metric: AnyMetric
    part: Callable[[Any], Any]
    sample: Callable[[Sample], Sample]

    @property
    def measures(self) -> Sequence[Measure]:
        """Those of the metric."""
        return self.metric.measures

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any] | RequestGenerator:
        """Score the part."""
        return self.metric.score(self.sample(sample), self.part(answer))

    @property
    def judge_requests(self) -> Callable[[Sample], Sequence[Request]] | None:
        """What a judge is asked about the part; None if the metric asks none."""
        asked = getattr(self.metric, "judge_requests", None)
        return None if asked is None else lambda sample: asked(self.sample(sample))


MultiRef: TypeAlias = Literal["max", "leave_one_out"]
MULTIREF_STRATEGIES = ("max", "leave_one_out")


def reference_list(reference: Any, metric: str) -> Sequence[Any]:
    """Return the references, which must be a non-empty list: a plain string would be read letter by letter."""
    if isinstance(reference, str) or not isinstance(reference, Sequence):
        raise DataError(
            f"{metric} got the reference {reference!r}, which is not a list of answers",
            hint=f"Give a list for every sample, such as [{str(reference)!r}].",
        )
    if not reference:
        raise DataError(f"{metric} got an empty list of references", hint="Give at least one answer for every sample.")
    return reference


def reference_texts(reference: Any, metric: str) -> list[str]:
    """Return the reference texts as a list; the reference is a text or a list of alternative texts."""
    found = [reference] if isinstance(reference, str) else list(reference) if isinstance(reference, Sequence) else []
    if not found or not all(isinstance(text, str) for text in found):
        raise DataError(
            f"{metric} got the reference {reference!r}, which is neither a text nor a list of texts",
            hint="Give every sample one reference text or several.",
        )
    return found


def best_over_references(rate: Callable[[Any], float], references: Sequence[Any], strategy: str) -> float:
    """Rate against every reference and return the best score.

    ``leave_one_out``: the mean, over the references, of the best score when that reference is left out. This makes a
    model comparable with a person whose own answer is among the references. With one reference both are the same.
    """
    scores = [rate(reference) for reference in references]
    if strategy == "max" or len(scores) == 1:
        return max(scores)
    best = [max(scores[:i] + scores[i + 1 :]) for i in range(len(scores))]
    return sum(best) / len(best)


def checked_choice(option: str, value: str, allowed: Sequence[str]) -> str:
    """Return the value of an option, which must be one of those allowed."""
    if value not in allowed:
        raise UsageError(f"{option}={value!r} is not known", hint=f"Use one of: {', '.join(allowed)}.")
    return value
