"""What evaluators of configs are built from: points of an answer, shares of points, figures by column of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Sample, Value, reference
from kshot.metrics import Metric
from kshot.metrics.aggregates import rounded_share, share
from kshot.statistics.resampling import mean

RIGHT, WRONG = 100.0, 0.0


class Points(Metric):
    """The mean of what each answer gets, from 0 to 100; a subclass says how much in ``rate``."""

    bounds: tuple[float, float] | None = (WRONG, RIGHT)

    def __init__(self, name: str = "score") -> None:
        self.name = name


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

    @property
    def aggregates(self) -> Mapping[str, str]:
        """It is computed from sums."""
        return dict.fromkeys(self.names, "rounded_share" if self.rounded else "share")

    def reduce(self, name: str, values: Sequence[Value]) -> float:  # noqa: ARG002 - one rule for all names
        """Return the share of the summed points."""
        return rounded_share(values) if self.rounded else share(values)

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Value]:
        """Return (points, out of) under the name."""
        points, out_of = self.points(prediction, reference)
        return {self.name: (float(points), float(out_of))}

    def points(self, prediction: Any, reference: Any) -> tuple[float, float]:
        """Return the points of one answer, and how many it could have."""
        raise NotImplementedError


class RoundedPoints(Share):
    """The mean of what each answer gets, rounded to two digits; a subclass says how much, from 0 to 1."""

    rounded = True


class SeesRows(Metric):
    """A metric whose names depend on the rows: it is shown all of them before the first answer is scored."""

    def see(self, samples: Iterable[Sample]) -> None:
        """Look at the samples."""
        raise NotImplementedError


class BySubset(SeesRows, RightOrWrong):
    """The share of right answers, in all and by columns of the rows; subsets without a sample have no figure.

    ``parts`` are the columns with the values that count (None: whatever is there), and the name of each figure, in
    which ``{}`` is the value.
    """

    def __init__(self, name: str, parts: Sequence[tuple[str, Sequence[str] | None, str]]) -> None:
        super().__init__(name)
        self.parts = tuple(parts)
        self._subsets: dict[str, tuple[str, Any]] = {}

    def __repr__(self) -> str:
        """Show the settings alone: the subsets are the rows'."""
        return f"{type(self).__name__}({self.name!r}, {self.parts!r})"

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the subsets that there are."""
        rows = [sample.fields for sample in samples]
        for column, wanted, name in self.parts:
            there = list(dict.fromkeys(row.get(column) for row in rows if row.get(column) is not None))
            values = there if wanted is None else [value for value in wanted if value in there]
            self._subsets |= {name.format(value): (column, value) for value in values}

    @property
    def names(self) -> tuple[str, ...]:
        """The figure of all, then those of the subsets."""
        return (self.name, *self._subsets)

    @property
    def details(self) -> tuple[str, ...]:
        """Those of the subsets."""
        return tuple(self._subsets)

    @property
    def aggregates(self) -> Mapping[str, str]:
        """Those of the subsets are computed from sums."""
        return dict.fromkeys(self._subsets, "share")

    def reduce(self, name: str, values: Sequence[Value]) -> float:
        """Return the share of right answers."""
        return share(values) if name in self._subsets else mean(values)

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value]:
        """Score an answer in all subsets of its row."""
        points = self.rate(answer, None if sample.target is None else reference(sample.target))
        inside = {name: float(sample.fields.get(column) == value) for name, (column, value) in self._subsets.items()}
        return {self.name: points, **{name: (points / RIGHT * held, held) for name, held in inside.items()}}


def text_of(prediction: Any, evaluator: str) -> str:
    """Return a prediction that must be text."""
    if not isinstance(prediction, str):
        raise DataError(
            f"{evaluator} wants text as the answer, not {prediction!r:.80}",
            hint="Look at the clean-up of the replies: it gave no text.",
        )
    return prediction


def texts_of(reference: Any, evaluator: str) -> list[str]:
    """Return references that must be a list of texts."""
    if not isinstance(reference, (list, tuple)) or not reference:
        raise DataError(
            f"{evaluator} wants a list of texts as the reference, not {reference!r:.80}",
            hint="Look at the column that reader_cfg's output_column names.",
        )
    return [str(each) for each in reference]
