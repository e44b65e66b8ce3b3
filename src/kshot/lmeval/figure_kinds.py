"""Which figure sums up the values of a metric, by the aggregation that the task file names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from kshot.core.records import Absent, Sample, Value
from kshot.lmeval.aggregation import AGGREGATIONS, aggregated
from kshot.lmeval.figures import PERCENT, ComputeMany, DocumentFigure, MeanFigure, SumsFigure, WholeFigure
from kshot.lmeval.files import FunctionRef, TaskConfig
from kshot.lmeval.functions import Functions
from kshot.metrics import Bleu, Chrf, Metric, Ter
from kshot.metrics.kept_values import kept_value

SHARES = frozenset({"acc", "acc_norm", "acc_bytes", "acc_mutual_info", "acc_all", "exact_match", "f1"})
"""The metrics of lm-eval whose values are shares, 0 to 1."""
RIGHT_OR_WRONG = SHARES - {"f1"}
"""Those whose values are 0 or 1."""


class BrierFigure(MeanFigure):
    """The mean squared distance of probabilities from the gold, of (index, probabilities)."""

    def __init__(self, name: str, *, higher_is_better: bool) -> None:
        super().__init__(name, higher_is_better=higher_is_better, share=False)
        self.bounds = (0.0, 2.0)

    def fit(self, values: Sequence[Any]) -> None:
        """See nothing: values are pairs."""

    def value(self, measured: Any) -> Value:
        """Return the distance of one document."""
        return super().value(aggregated("brier_score", self.name, [measured], ""))


class NothingMeasured(DocumentFigure):
    """The metric ``bypass``: a task that only generates has no figure."""

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value | Absent]:  # noqa: ARG002 - as it says
        """Return that nothing is measured."""
        return {self.name: Absent("bypass measures nothing")}


@dataclass(frozen=True, slots=True)
class FigureSpec:
    """What a figure is made from."""

    name: str
    """What the results call it."""
    metric: str
    aggregation: str | FunctionRef
    higher_is_better: bool = True
    by_function: bool = False
    """Whether a function of the task gives the values, on a scale of its own."""


def figure_of(config: TaskConfig, functions: Functions, spec: FigureSpec) -> DocumentFigure:
    """Return the figure of a metric."""
    name, better, where = spec.name, spec.higher_is_better, config.where("metric_list")
    is_share = spec.metric in SHARES
    match spec.aggregation:
        case FunctionRef() as function:
            compute = _by_function(functions, function)
            return WholeFigure(name, compute, higher_is_better=better, ahead=True, share=is_share)
        case "mean" | "nanmean" as rule:
            share = None if is_share and spec.by_function else is_share
            binary = spec.metric in RIGHT_OR_WRONG
            return MeanFigure(name, higher_is_better=better, share=share, binary=binary, skip_nan=rule == "nanmean")
        case "brier_score":
            return BrierFigure(name, higher_is_better=better)
        case "bypass":
            return NothingMeasured(name, higher_is_better=better)
        case rule if rule in _SUMS:
            made, parts, bounds, scale = _SUMS[rule]()
            return SumsFigure(name, made, parts, higher_is_better=better, bounds=bounds, scale=scale)
        case rule:
            if rule not in AGGREGATIONS:
                aggregated(rule, spec.metric, [], where)  # it says which there are
            bounds_of, scale = ((-100.0, 100.0), 100.0) if rule == "matthews_corrcoef" else (None, 1.0)
            compute = _by_name(rule, spec.metric, where)
            return WholeFigure(name, compute, higher_is_better=better, bounds=bounds_of, scale=scale)


def _by_function(functions: Functions, aggregation: FunctionRef) -> ComputeMany:
    return lambda groups: functions.summed(aggregation, kept_value, groups)


def _by_name(aggregation: str, metric: str, where: str) -> ComputeMany:
    return lambda groups: [aggregated(aggregation, metric, list(map(kept_value, group)), where) for group in groups]


# ---- sums ----


def likelihood_parts(measured: Any) -> tuple[float, ...]:
    """Return the negative log-likelihood of one document, or of (log-likelihood, units)."""
    if isinstance(measured, list | tuple):
        logprob, units = measured
        return (-float(logprob), float(units))
    return (-float(measured), 1.0)


def label_parts(measured: Any) -> tuple[float, ...]:
    """Return whether the label 1 was right, was the gold and was predicted, of (gold, predicted)."""
    gold, predicted = measured
    if gold not in (0, 1) or predicted not in (0, 1):
        raise ValueError("binary F1 needs the labels 0 and 1")
    return (float(gold == predicted == 1), float(gold == 1), float(predicted == 1))


def translation_parts(metric: Metric) -> Callable[[Any], tuple[float, ...]]:
    """Return the function from (reference or references, prediction) to what they add to the sums of a metric."""

    def parts(measured: Any) -> tuple[float, ...]:
        references, prediction = measured
        if isinstance(prediction, list | tuple):
            (prediction,) = prediction
        listed = [references] if isinstance(references, str) else list(references)
        rated = metric.rate(prediction, listed)
        found = rated[metric.name] if isinstance(rated, Mapping) else rated
        if not isinstance(found, tuple):
            raise TypeError("it has no sums")
        return found

    return parts


Sums: TypeAlias = tuple[str, Callable[[Any], tuple[float, ...]], tuple[float, float], float]
"""The rule of kshot, what a document adds to its sums, the ends of the scale, and how many times lm-eval's it is."""
_POSITIVE = (0.0, math.inf)


def _translation(metric: Metric, bounds: tuple[float, float]) -> Sums:
    return metric.aggregates[metric.name], translation_parts(metric), bounds, 1.0


_SUMS: Mapping[str, Callable[[], Sums]] = {
    "perplexity": lambda: ("perplexity", likelihood_parts, _POSITIVE, 1.0),
    "weighted_perplexity": lambda: ("perplexity", likelihood_parts, _POSITIVE, 1.0),
    "bits_per_byte": lambda: ("bits", likelihood_parts, _POSITIVE, 1.0),
    "f1": lambda: ("f1", label_parts, PERCENT, 100.0),
    "bleu": lambda: _translation(Bleu("13a"), PERCENT),
    "chrf": lambda: _translation(Chrf(), PERCENT),
    "chrf++": lambda: _translation(Chrf(word_order=2), PERCENT),
    "ter": lambda: _translation(Ter(), _POSITIVE),
}
"""The aggregations that are computed from sums."""
