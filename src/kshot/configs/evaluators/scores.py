"""What evaluators of configs are built from: points of an answer, figures by column, sums, all pairs at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeAlias

from kshot.core.errors import DataError
from kshot.core.metric import MEAN, Aggregate, Measure, Observation, Whole, places_digest
from kshot.core.records import Gold, Row, Sample, reference
from kshot.metrics import Metric
from kshot.metrics.aggregates import ROUNDED_SHARE, SHARE, OfSums
from kshot.statistics.resampling import mean

RIGHT, WRONG = 100.0, 0.0


class MeasureFamily(Metric):
    """A metric whose measures are alike: a subclass gives their names, and how the values of each are aggregated."""

    names: tuple[str, ...] = ()

    @property
    def details(self) -> tuple[str, ...]:
        """Those of the names that break another one down; systems are not compared by them."""
        return ()

    def aggregate(self, name: str) -> Aggregate:  # noqa: ARG002 - a subclass aggregates each name in its own way
        """Return how the values of a name become its figure."""
        return MEAN

    @property
    def measures(self) -> Sequence[Measure]:
        """A measure for each name."""
        like = Measure("", bounds=self.bounds, binary=self.binary, higher_is_better=self.higher_is_better)
        details = self.details
        return [replace(like, name=name, aggregate=self.aggregate(name), detail=name in details) for name in self.names]

    def __repr__(self) -> str:
        """Show the settings alone: what is found in the rows has a name that begins with an underscore."""
        settings = ", ".join(f"{key}={value!r}" for key, value in vars(self).items() if not key.startswith("_"))
        return f"{type(self).__name__}({settings})"


Rate: TypeAlias = Callable[[Any, Any], Any]
"""Rates a prediction against its reference; a metric of several names wants a mapping."""


class Points(MeasureFamily):
    """The mean of what each answer gets, by a function of a prediction and its reference.

    ``more`` are the names of further figures that the function returns, ``aggregates`` those that are no means.
    """

    def __init__(
        self,
        name: str,
        rate: Rate,
        bounds: tuple[float, float] | None = (WRONG, RIGHT),
        *,
        higher_is_better: bool = True,
        more: Sequence[str] = (),
        aggregates: Mapping[str, Aggregate] = {},
    ) -> None:
        self.name, self.bounds, self.higher_is_better = name, bounds, higher_is_better
        self.names, self._rate, self._aggregates = (name, *more), rate, aggregates

    def aggregate(self, name: str) -> Aggregate:
        """Return the mean, or what was given."""
        return self._aggregates.get(name, MEAN)

    def rate(self, prediction: Any, reference: Any, /) -> Any:
        """Call the function."""
        return self._rate(prediction, reference)


def equal(prediction: Any, reference: Any) -> bool:
    """Whether a prediction is the reference."""
    return bool(prediction == reference)


class RightOrWrong(MeasureFamily):
    """The share of right answers; a function of a prediction and its reference says which are right."""

    bounds: tuple[float, float] | None = (WRONG, RIGHT)
    binary = True

    def __init__(self, name: str, same: Callable[[Any, Any], bool] = equal, /) -> None:
        self.name, self.names, self._same = name, (name,), same

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Return 100 for a right answer, 0 for any other."""
        return RIGHT if self._same(prediction, reference) else WRONG


class RightByTurn(RightOrWrong):
    """The same, where the turns of a conversation are averaged."""

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Return 100 for a right answer or turn, 0 for any other."""
        if isinstance(prediction, (list, tuple)) and isinstance(reference, (list, tuple)):
            pairs = list(zip(prediction, reference, strict=False))
            return mean([self.rate(*pair) for pair in pairs]) if len(prediction) == len(reference) and pairs else WRONG
        return super().rate(prediction, reference)


class RightInRow(RightOrWrong):
    """The share of right answers; a function of a sample and its answer says which are right."""

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:
        """Return 100 for a right answer, 0 for any other."""
        return {self.name: self.rate(sample, answer)}


def summed(name: str, parts: Rate, aggregate: Aggregate = SHARE) -> Points:
    """Return a figure of sums; ``parts`` gives what one answer adds to them.

    By default these are its points and those that it could have: the figure is their share in percent.
    """
    return Points(
        name,
        lambda prediction, reference: {name: tuple(map(float, parts(prediction, reference)))},
        aggregates={name: aggregate},
    )


def rounded(name: str, rate: Rate) -> Points:
    """Return the mean of what each answer gets, from 0 to 1, in percent and rounded to two digits."""
    return summed(name, lambda prediction, reference: (rate(prediction, reference), 1.0), ROUNDED_SHARE)


class SeesRows(MeasureFamily):
    """A metric whose names depend on the rows: it is shown all of them before the first answer is scored."""

    def see(self, samples: Iterable[Sample]) -> None:
        """Look at the samples; by default there is nothing to find out."""


class BySubset(SeesRows, RightOrWrong):
    """The share of right answers, in all and in subsets.

    ``subsets_of`` returns the names of the figures to which a sample with this reference and row belongs.
    """

    def __init__(
        self,
        name: str,
        subsets_of: Callable[[Any, Row], Iterable[str]],
        same: Callable[[Any, Any], bool] = equal,
        /,
    ) -> None:
        super().__init__(name, same)
        self._subsets_of = subsets_of

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the subsets that there are."""
        subsets = dict.fromkeys(name for each in samples for name in self._subsets_of(gold_of(each), each.fields))
        self.names = (self.name, *subsets)

    @property
    def details(self) -> tuple[str, ...]:
        """Those of the subsets."""
        return self.names[1:]

    def aggregate(self, name: str) -> Aggregate:
        """Return the share of right answers; that of a subset whose samples all failed is None."""
        return SHARE if name in self.details else MEAN

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:
        """Score an answer in all subsets of its sample."""
        gold = gold_of(sample)
        points, own = self.rate(answer, gold), set(self._subsets_of(gold, sample.fields))
        return {self.name: points} | {
            name: (points / RIGHT, 1.0) if name in own else (0.0, 0.0) for name in self.details
        }


def text_of(prediction: Any, evaluator: str) -> str:
    """Return a prediction that must be text."""
    if not isinstance(prediction, str):
        raise DataError(
            f"{evaluator} wants text as the answer, not {prediction!r:.80}",
            hint="Look at the clean-up of the replies: it gave no text.",
        )
    return prediction


def columns(row: Row, *names: str, hint: str) -> list[Any]:
    """Return the columns of a row that an evaluator needs."""
    if missing := [name for name in names if name not in row]:
        raise DataError(f"the rows have no column {missing[0]!r}", hint=hint)
    return [row[name] for name in names]


def listed(reference: Any) -> Any:
    """Return references; one text is a list of one, not of its letters."""
    return [reference] if isinstance(reference, str) else reference


def texts_of(reference: Any, evaluator: str) -> list[str]:
    """Return references that must be a list of texts; one text is a list of one."""
    reference = listed(reference)
    if not isinstance(reference, (list, tuple)) or not reference:
        raise DataError(
            f"{evaluator} wants a list of texts as the reference, not {reference!r:.80}",
            hint="Look at the column that reader_cfg's output_column names.",
        )
    return [str(each) for each in reference]


# ---- sums ----

Counts: TypeAlias = Sequence[float]
"""What is counted of one sample, or of several together."""


class Tally(SeesRows):
    """A metric of sums: ``counts`` says what is counted of a sample, ``figures`` which figures the sums give.

    Either is a function that is given, or a method of a subclass. A name that ``figures`` leaves out has no sample.
    ``mean``: the first figure is the mean of those of single samples, so that two runs can be compared by it.
    """

    mean: str = ""

    def __init__(
        self,
        names: Sequence[str],
        counts: Callable[[Sample, Any], Counts],
        figures: Callable[[Counts], Mapping[str, float]],
        *,
        mean: bool = False,
    ) -> None:
        self.name, self.mean = names[0], names[0] if mean else ""
        self.names, self._counts, self._figures = tuple(names), counts, figures

    @property
    def details(self) -> tuple[str, ...]:
        """All names but the first one."""
        return self.names[1:]

    def aggregate(self, name: str) -> Aggregate:
        """Return the figure of the sums, which only the metric knows."""
        return MEAN if name == self.mean else OfSums(lambda sums: self.figures(sums).get(name))

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Return what is counted of one sample."""
        return self._counts(sample, answer)

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the figures of added counts, by name."""
        return self._figures(sums)

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


# ---- all pairs at once ----

ScoredPair: TypeAlias = tuple[Any, Any, Row]
"""A prediction, its reference, and the row of both."""


class CorpusMetric(MeasureFamily):
    """A metric of all pairs of prediction and reference at once.

    The value of a sample is its pair, so that a part of the samples, such as a resample of an interval, can be measured
    anew; where two systems are compared, samples of both are measured together.
    """

    def aggregate(self, name: str) -> Aggregate:
        """Measure the samples whose values these are."""
        return Whole(partial(self.figure, name))

    def figures(self, pairs: Sequence[ScoredPair]) -> Mapping[str, float | None]:
        """Return the figures of these pairs, by name; None, or no entry, where they have none."""
        raise NotImplementedError

    def figure(self, name: str, values: Sequence[Observation]) -> float | None:
        """Return one figure of these pairs; those of the same pairs are computed once."""
        key = places_digest(values)
        if key not in self._known:
            self._known[key] = self.measured(values)
        return self._known[key].get(name)

    def measured(self, values: Sequence[Observation]) -> Mapping[str, float | None]:
        """Return the figures of these pairs."""
        return self.figures([value.content for value in values])

    @cached_property
    def _known(self) -> dict[bytes, Mapping[str, float | None]]:
        return {}

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:
        """Return the pair."""
        return self.observed((answer, gold_of(sample), sample.fields))

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Return a pair that is scored outside a run."""
        return self.observed((prediction, reference, {}))

    def observed(self, pair: ScoredPair) -> Mapping[str, Any]:
        """Return a pair as the value of every name."""
        return dict.fromkeys(self.names, Observation(pair))
