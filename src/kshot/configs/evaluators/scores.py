"""What evaluators of configs are built from: points of an answer, shares of points, figures by column of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kshot.core.errors import DataError
from kshot.core.metric import MEAN, Aggregate, Measure
from kshot.core.records import Row, Sample, reference
from kshot.metrics import Metric
from kshot.metrics.aggregates import ROUNDED_SHARE, SHARE

RIGHT, WRONG = 100.0, 0.0


class MeasureFamily(Metric):
    """A metric whose measures are alike: a subclass gives their names, and how the values of each are aggregated."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the measures."""
        return (self.name,)

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


class Points(MeasureFamily):
    """The mean of what each answer gets, from 0 to 100; a subclass says how much in ``rate``."""

    name = "score"
    bounds: tuple[float, float] | None = (WRONG, RIGHT)

    def __init__(self, name: str = "") -> None:
        self.name = name or self.name


class RightOrWrong(Points):
    """The share of right answers; a subclass says in ``same`` what is right."""

    binary = True

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Return 100 for a right answer, 0 for any other."""
        return RIGHT if self.same(prediction, reference) else WRONG

    def same(self, prediction: Any, reference: Any) -> bool:
        """Whether an answer is right."""
        return bool(prediction == reference)


class Share(Points):
    """Points in percent of those that could be had in all samples; ``rate`` returns both for one sample."""

    rounded = False

    def aggregate(self, name: str) -> Aggregate:  # noqa: ARG002 - one rule for all names
        """Return the share of the summed points."""
        return ROUNDED_SHARE if self.rounded else SHARE

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Return (points, out of) under the name."""
        points, out_of = self.points(prediction, reference)
        return {self.name: (float(points), float(out_of))}

    def points(self, prediction: Any, reference: Any) -> tuple[float, float]:
        """Return the points of one answer, and how many it could have."""
        raise NotImplementedError


class RoundedPoints(Share):
    """The mean of what each answer gets, rounded to two digits; a subclass says how much, from 0 to 1."""

    rounded = True


class SeesRows(MeasureFamily):
    """A metric whose names depend on the rows: it is shown all of them before the first answer is scored."""

    def see(self, samples: Iterable[Sample]) -> None:
        """Look at the samples."""
        raise NotImplementedError


class BySubset(SeesRows, RightOrWrong):
    """The share of right answers, in all and in subsets; a subclass says to which of them a sample belongs."""

    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        self._subsets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Show the name alone: the subsets are the rows'."""
        return f"{type(self).__name__}({self.name!r})"

    def subsets_of(self, gold: Any, row: Row) -> Iterable[str]:
        """Return the names of the figures to which a sample with this reference and row belongs."""
        raise NotImplementedError

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the subsets that there are."""
        self._subsets = tuple(dict.fromkeys(name for each in samples for name in self.subsets_of(*_gold_and_row(each))))

    @property
    def names(self) -> tuple[str, ...]:
        """The figure of all, then those of the subsets."""
        return (self.name, *self._subsets)

    @property
    def details(self) -> tuple[str, ...]:
        """Those of the subsets."""
        return self._subsets

    def aggregate(self, name: str) -> Aggregate:
        """Return the share of right answers; that of a subset whose samples all failed is None."""
        return SHARE if name in self._subsets else MEAN

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:
        """Score an answer in all subsets of its sample."""
        gold, row = _gold_and_row(sample)
        points, own = self.rate(answer, gold), set(self.subsets_of(gold, row))
        return {self.name: points} | {
            name: (points / RIGHT, 1.0) if name in own else (0.0, 0.0) for name in self._subsets
        }


class ByColumn(BySubset):
    """The share of right answers, in all and by columns of the rows.

    ``columns`` are columns with the values that count; a figure's name is the name of all, ``_`` and the value.
    """

    def __init__(self, name: str, columns: Mapping[str, Sequence[str]]) -> None:
        super().__init__(name)
        self.columns = dict(columns)

    def subsets_of(self, gold: Any, row: Row) -> Iterable[str]:  # noqa: ARG002 - the row says it
        """Look the values up."""
        return [
            f"{self.name}_{row.get(column)}" for column, values in self.columns.items() if row.get(column) in values
        ]


def _gold_and_row(sample: Sample) -> tuple[Any, Row]:
    return None if sample.target is None else reference(sample.target), sample.fields


def text_of(prediction: Any, evaluator: str) -> str:
    """Return a prediction that must be text."""
    if not isinstance(prediction, str):
        raise DataError(
            f"{evaluator} wants text as the answer, not {prediction!r:.80}",
            hint="Look at the clean-up of the replies: it gave no text.",
        )
    return prediction


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
