"""The figures of a task as metrics of kshot: each reads the value that was measured with the answer of a document.

Which one sums up the values of a metric depends on the aggregation that the task file names; the figures are lm-eval's.
Shares are figures of 0 to 100, as everywhere in kshot; what a function of the task measures on another scale keeps it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from kshot.core.errors import DataError
from kshot.core.metric import MEAN, Measure, Observation, Whole, places_digest
from kshot.core.records import Absent, AskFailed, Failed, Sample
from kshot.core.visible import without_text
from kshot.lmeval.files import FunctionRef, TaskConfig
from kshot.lmeval.functions import Functions
from kshot.metrics import Bleu, Chrf, Ter
from kshot.metrics.aggregates import BITS, LABEL_F1, PERPLEXITY, OfSums
from kshot.metrics.metric import PERCENT, Metric
from kshot.statistics.resampling import bootstrap_samples


def mean(values: Sequence[Any]) -> float:
    """Return the mean, added up in order."""
    return float(sum(values) / len(values))


def median(values: Sequence[Any]) -> float:
    """Return the upper middle value."""
    return float(sorted(values)[len(values) // 2])


def nanmean(values: Sequence[Any]) -> float:
    """Return the mean of the values that are numbers; not a number where none is."""
    known = [float(value) for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def matthews_corrcoef(values: Sequence[Any]) -> float:
    """Return Matthews' correlation of (gold, predicted) labels; 0 where one side has a single label."""
    golds, predictions = zip(*values, strict=True)
    size = len(values)
    right = sum(gold == predicted for gold, predicted in zip(golds, predictions, strict=True))
    gold, predicted = Counter(golds), Counter(predictions)
    agreed = right * size - sum(count * predicted[label] for label, count in gold.items())
    spread = math.prod(size**2 - sum(count**2 for count in side.values()) for side in (gold, predicted))
    return agreed / math.sqrt(spread) if spread else 0.0


def brier_score(values: Sequence[Any]) -> float:
    """Return the mean squared distance of probabilities from the gold, of (index, probabilities) pairs."""
    golds, predictions = zip(*values, strict=True)
    probabilities = np.array(predictions, dtype=np.float64)
    right = np.eye(probabilities.shape[1])[list(golds)]
    return float(np.mean(np.sum((probabilities - right) ** 2, axis=1)))


def bypass(values: Sequence[Any]) -> float:  # noqa: ARG001 - nothing is measured
    """Return 999, as lm-eval does for a task that only generates."""
    return 999.0


def aggregated(name: str, metric: str, values: Sequence[Any], where: str) -> float | None:
    """Sum up the values of a metric by a named aggregation; values that do not suit it are an error."""
    aggregate = AGGREGATIONS.get(name)
    if aggregate is None:
        known = ", ".join(sorted(AGGREGATIONS))
        raise DataError(f"there is no aggregation {name!r}", where=where, hint=f"Use one of {known}, or a !function.")
    try:
        return aggregate(values)
    except (ArithmeticError, TypeError, ValueError, IndexError, AttributeError) as exc:
        first = values[0] if values else None
        what = f"the values of {metric} cannot be summed up by {name}: {exc} (the first value is {first!r:.80})"
        raise DataError(what, where=where) from exc


SHARES = frozenset({"acc", "acc_norm", "acc_bytes", "acc_mutual_info", "acc_all", "exact_match", "f1"})
"""The metrics of lm-eval whose values are shares, 0 to 1."""
RIGHT_OR_WRONG = SHARES - {"f1"}
"""Those whose values are 0 or 1."""
NO_VALUE = Absent("the task gives no value for it")
_MAX_FIGURES = 1000
"""How many figures functions may give a task beside those that it lists."""


class DocumentFigure:
    """A figure over the values of documents; ``value`` gives what of each is summed up.

    ``scale``: how many times lm-eval's figure it is.
    """

    def __init__(self, measure: Measure, value: Callable[[Any], Any], scale: float = 1.0) -> None:
        """The rule of the measure is its name: the value was measured under it."""
        self.measure = replace(measure, rule=measure.name)
        self.value, self.scale = value, scale

    @property
    def measures(self) -> Sequence[Measure]:
        """The measure, whose scale may depend on the values that ``fit`` saw."""
        return (self.measure,)

    def fit(self, values: Sequence[Any]) -> None:
        """See the values of all documents before any of them is scored; ``Absent`` stands for a missing one."""

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:  # noqa: ARG002 - it was measured
        """Return the value of a document."""
        return {self.measure.name: answer if isinstance(answer, Absent) else self.value(answer)}


class MeanFigure(DocumentFigure):
    """The mean of numbers. ``share``: they are 0 to 1 and shown as percentages; None: if all of them are.

    A share is binary, 0 or 1, if the measure says so and no value between them is seen. ``skip_nan``: a document whose
    value is not a number has none.
    """

    def __init__(self, measure: Measure, *, share: bool | None, skip_nan: bool = False) -> None:
        super().__init__(measure, self._number)
        self._share, self._binary, self._skip_nan = share, measure.binary, skip_nan
        self._set_scale(share=bool(share), binary=measure.binary, partial=skip_nan)

    def _set_scale(self, *, share: bool, binary: bool, partial: bool) -> None:
        """``partial``: not all documents have a value, and runs cannot be compared by the mean of those that have."""
        self.scale, bounds = (100.0, PERCENT) if share else (1.0, None)
        aggregate = _MEAN_OF_SOME if partial else MEAN
        self.measure = replace(self.measure, aggregate=aggregate, bounds=bounds, binary=share and binary)

    @property
    def _partial(self) -> bool:
        return self.measure.aggregate is _MEAN_OF_SOME

    def fit(self, values: Sequence[Any]) -> None:
        """See whether the values are shares, and whether all documents have one."""
        told = [value for value in values if not isinstance(value, Absent)]
        numbers = [number for value in told if (number := _float(value)) is not None and not math.isnan(number)]
        share = all(0 <= value <= 1 for value in numbers) if self._share is None else self._share
        binary = self._binary and all(value in (0, 1) for value in numbers)
        self._set_scale(share=share, binary=binary, partial=self._skip_nan or 0 < len(told) < len(values))

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:
        """Return the value of a document; a document that has none, where others have, adds nothing."""
        name = self.measure.name
        missing = isinstance(answer, Absent) or (self._skip_nan and math.isnan(_number(answer, name)))
        return {name: (0.0, 0.0)} if missing and self._partial else super().score(sample, answer)

    def _number(self, measured: Any) -> Any:
        """Return the number on the scale of the figure; with a count where not all documents have one."""
        number = _finite(_number(measured, self.measure.name) * self.scale, self.measure.name)
        return (number, 1.0) if self._partial else number


_MEAN_OF_SOME = OfSums(lambda sums: sums[0] / sums[1] if sums[1] else None)


Parts: TypeAlias = Callable[[Any], tuple[float, ...]]
"""From what was measured of a document to what it adds to the sums."""


def _sums_of(name: str, parts: Parts, measured: Any) -> tuple[float, ...]:
    """Return what a document adds to the sums of a figure."""
    try:
        return tuple(_finite(part, name) for part in parts(measured))
    except (TypeError, ValueError) as exc:
        raise DataError(f"{name} cannot be computed from {measured!r:.80}: {exc}") from exc


def _brier_score(name: str, measured: Any) -> float:
    """Return the squared distance of probabilities from the gold, of (index, probabilities)."""
    return _finite(_number(aggregated("brier_score", name, [measured], ""), name), name)


Group: TypeAlias = Sequence[Observation]
ComputeMany: TypeAlias = Callable[[Sequence[Group]], list[Any]]
"""Returns the figure of each group of values, or the DataError that tells why there is none."""


class WholeFigure(DocumentFigure):
    """A figure that an aggregation computes from the values of all documents, whatever these are.

    ``ahead``: it takes long, so the resamples of its interval are computed together. A part of the documents, such as
    a single one, may have no figure; where all of them have none, ``fit`` says why. ``share``: the figure is shown as a
    percentage if it is 0 to 1.
    """

    def __init__(
        self, measure: Measure, compute: ComputeMany, *, scale: float = 1.0, ahead: bool = False, share: bool = False
    ) -> None:
        super().__init__(replace(measure, aggregate=Whole(self._figure)), Observation, scale)
        self._compute, self._share = compute, share
        self._known: dict[bytes, float | None] = {}
        self._waiting: Group = ()
        self._ahead = ahead

    def fit(self, values: Sequence[Any]) -> None:
        """Raise DataError if these values cannot be aggregated."""
        observed = [Observation(value) for value in values]
        told = _told(observed)
        found = self._checked(self._compute([told])[0]) if told else 0.0
        if self._share and 0 <= found <= 1:
            self.scale, self.measure = 100.0, replace(self.measure, bounds=PERCENT)
        self._waiting = observed if self._ahead and len(observed) > 1 else ()

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:  # noqa: ARG002 - it was measured
        """Return the value of a document; one without a value takes no part."""
        return {self.measure.name: Observation(answer)}

    def _figure(self, values: Group) -> float | None:
        """Compute the figure of these documents."""
        told = _told(values)
        if not told:
            return None
        if places_digest(told) not in self._known:
            self._remember([told, *self._resamples(len(values))])
        return self._known[places_digest(told)]

    def _resamples(self, size: int) -> list[Group]:
        """Return the resamples of all documents, once, when the first of them is asked for."""
        if size != len(self._waiting):
            return []
        waiting, self._waiting = self._waiting, ()
        return [told for told in map(_told, bootstrap_samples(waiting)) if told]

    def _remember(self, groups: Sequence[Group]) -> None:
        new = {key: group for group in groups if (key := places_digest(group)) not in self._known}
        for key, found in zip(new, self._compute(list(new.values())), strict=True):
            value = _float(found)
            self._known[key] = value * self.scale if value is not None and math.isfinite(value) else None

    def _checked(self, found: Any) -> float:
        if isinstance(found, DataError):
            raise found
        number = _float(found)
        if number is None:
            raise DataError(f"the aggregation of {self.measure} gives {found!r:.80}, which is no number")
        return number


def _told(values: Group) -> Group:
    """Return the values that are there."""
    return [value for value in values if not isinstance(value.content, Absent)]


class UnlistedFigures:
    """The figures of the names that a function gives and ``metric_list`` does not have: they are known at the end."""

    def __init__(self, made: Callable[[str], DocumentFigure]) -> None:
        """``made``: makes the figure of a name."""
        self._made = made
        self.figures: dict[str, DocumentFigure] = {}
        self.measures: Sequence[Measure] = ()

    def fit(self, values: Sequence[Mapping[str, Any]]) -> None:
        """See the values of all documents, by name."""
        names = dict.fromkeys(name for each in values for name in each)
        if len(names) > _MAX_FIGURES:
            raise DataError(f"the task measures {len(names):,} figures, and a task may have {_MAX_FIGURES:,}")
        for name in names:
            self.figures[name] = self._made(name)
            self.figures[name].fit([each.get(name, NO_VALUE) for each in values])
        self.measures = [replace(figure.measure, rule="") for figure in self.figures.values()]

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:
        """Return the values of a document; ``answer``: a mapping of what was measured."""
        found: dict[str, Any] = {}
        for name, figure in self.figures.items():
            found |= figure.score(sample, answer.get(name, NO_VALUE))
        return found


def _float(value: Any) -> float | None:
    """Return a value as a number; None if it is none, or too large."""
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


def _number(value: Any, name: str) -> float:
    """Return the value of a document; one that is no number is a failed sample."""
    number = _float(value)
    if number is None:
        raise AskFailed(Failed("no_number", f"{name} is {without_text(value) or repr(value)[:80]}"))
    return number


def _finite(number: float, name: str) -> float:
    """Return a number; a document whose value is not finite is a failed sample: it tells nothing."""
    if not math.isfinite(number):
        raise AskFailed(Failed("no_number", f"{name} is {number}"))
    return number


# ---- by the aggregation of the task file ----


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
    measure, where = Measure(spec.name, higher_is_better=spec.higher_is_better), config.where("metric_list")
    is_share = spec.metric in SHARES
    match spec.aggregation:
        case FunctionRef() as function:
            return WholeFigure(measure, lambda groups: functions.summed(function, groups), ahead=True, share=is_share)
        case "mean" | "nanmean" as rule:
            share = None if is_share and spec.by_function else is_share
            binary = spec.metric in RIGHT_OR_WRONG
            return MeanFigure(replace(measure, binary=binary), share=share, skip_nan=rule == "nanmean")
        case "brier_score":
            return DocumentFigure(replace(measure, bounds=(0.0, 2.0)), partial(_brier_score, spec.name))
        case "bypass":
            return DocumentFigure(measure, lambda _: Absent("bypass measures nothing"))
        case rule if rule in _SUMS:
            aggregate, bounds, parts, scale = _SUMS[rule]()
            summed = replace(measure, aggregate=_finite_only(aggregate), bounds=bounds)
            return DocumentFigure(summed, partial(_sums_of, spec.name, parts), scale)
        case rule:
            if rule not in AGGREGATIONS:
                aggregated(rule, spec.metric, [], where)  # it says which there are
            ends, scale = ((-100.0, 100.0), 100.0) if rule == "matthews_corrcoef" else (None, 1.0)
            return WholeFigure(replace(measure, bounds=ends), _by_name(rule, spec.metric, where), scale=scale)


def _by_name(aggregation: str, metric: str, where: str) -> ComputeMany:
    return lambda groups: [aggregated(aggregation, metric, [o.content for o in group], where) for group in groups]


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


def translation_parts(metric: Metric) -> Parts:
    """Return the function from (reference or references, prediction) to what they add to the sums of a metric."""

    def parts(measured: Any) -> tuple[float, ...]:
        references, prediction = measured
        if isinstance(prediction, list | tuple):
            if len(prediction) != 1:
                raise ValueError(f"a prediction must be one text, not {prediction!r:.80}")
            (prediction,) = prediction
        listed = [references] if isinstance(references, str) else list(references)
        found: tuple[float, ...] = metric.rate(prediction, listed)[metric.name]
        return found

    return parts


def _finite_only(aggregate: OfSums) -> OfSums:
    """Return an aggregate that gives None where the figure is too large to be a number."""

    def figure(sums: Sequence[float]) -> float | None:
        found = aggregate.figure(sums)
        return found if found is not None and math.isfinite(found) else None

    return replace(aggregate, figure=figure)


Sums: TypeAlias = tuple[OfSums, tuple[float, float] | None, Parts, float]
"""The aggregate, the ends of the scale, what a document adds to the sums, how many times lm-eval's figure it is."""
_POSITIVE = (0.0, math.inf)


def _translation(metric: Metric) -> Sums:
    measure = metric.measures[-1]
    assert isinstance(measure.aggregate, OfSums)  # noqa: S101 - those of translations are
    return measure.aggregate, measure.bounds, translation_parts(metric), 1.0


_SUMS: Mapping[str, Callable[[], Sums]] = {
    "perplexity": lambda: (PERPLEXITY, _POSITIVE, likelihood_parts, 1.0),
    "weighted_perplexity": lambda: (PERPLEXITY, _POSITIVE, likelihood_parts, 1.0),
    "bits_per_byte": lambda: (BITS, _POSITIVE, likelihood_parts, 1.0),
    "f1": lambda: (LABEL_F1, PERCENT, label_parts, 100.0),
    "bleu": lambda: _translation(Bleu("13a")),
    "chrf": lambda: _translation(Chrf()),
    "chrf++": lambda: _translation(Chrf(word_order=2)),
    "ter": lambda: _translation(Ter()),
}
"""The aggregations that are computed from sums."""


def _of_sums(rule: str, values: Sequence[Any]) -> float | None:
    """Return lm-eval's figure of all documents from what each adds to the sums."""
    aggregate, _, parts, scale = _SUMS[rule]()
    found = aggregate([parts(value) for value in values])
    return None if found is None else found / scale


AGGREGATIONS: Mapping[str, Callable[[Sequence[Any]], float | None]] = {
    "mean": mean,
    "median": median,
    "nanmean": nanmean,
    "matthews_corrcoef": matthews_corrcoef,
    "brier_score": brier_score,
    "bypass": bypass,
    **{rule: partial(_of_sums, rule) for rule in _SUMS},
}
"""The aggregations that a task file can name."""
