"""The figures of a task as metrics of kshot: each reads the value that was measured with the answer of a document.

Shares are figures of 0 to 100, as everywhere in kshot; what a function of the task measures on another scale keeps it.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias

from kshot.core.errors import DataError
from kshot.core.records import Absent, AskFailed, Failed, Sample, Value
from kshot.core.visible import without_text
from kshot.metrics import Metric
from kshot.metrics.aggregates import aggregate
from kshot.metrics.kept_values import KeptValue, keep
from kshot.statistics.figures import OWN_AGGREGATE
from kshot.statistics.resampling import bootstrap_samples, mean

PERCENT = (0.0, 100.0)
_MAX_FIGURES = 1000
"""How many figures functions may give a task beside those that it lists."""


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

    ``binary``: a share is 0 or 1, unless a value between them is seen. ``skip_nan``: a document whose value is not a
    number has none.
    """

    def __init__(
        self, name: str, *, higher_is_better: bool, share: bool | None, binary: bool = False, skip_nan: bool = False
    ) -> None:
        super().__init__(name, higher_is_better=higher_is_better)
        self._share, self._binary, self._partial, self._skip_nan = share, binary, skip_nan, skip_nan
        self._set_scale(share=bool(share), binary=binary)

    def _set_scale(self, *, share: bool, binary: bool) -> None:
        self.scale, self.bounds = (100.0, PERCENT) if share else (1.0, None)
        self.binary = share and binary

    def fit(self, values: Sequence[Any]) -> None:
        """See whether the values are shares, and whether all documents have one."""
        told = [value for value in values if not isinstance(value, Absent)]
        self._partial = self._skip_nan or 0 < len(told) < len(values)
        numbers = [number for value in told if (number := _float(value)) is not None and not math.isnan(number)]
        share = all(0 <= value <= 1 for value in numbers) if self._share is None else self._share
        self._set_scale(share=share, binary=self._binary and all(value in (0, 1) for value in numbers))

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
        """Return the figure of the sums; None where it is too large to be a number."""
        first = values[0]
        reduce = aggregate(self._rule, len(first) if isinstance(first, tuple) else 1)
        if reduce is None:
            raise DataError(f"{self.name} cannot be computed from {first!r:.80}")
        found = reduce(values)
        return found if found is not None and math.isfinite(found) else None


Numbers: TypeAlias = "array[int]"
"""Values by the numbers under which they are kept."""
ComputeMany: TypeAlias = Callable[[Sequence[Numbers]], list[Any]]
"""Returns the figure of each group of kept values, or the DataError that tells why there is none."""


class WholeFigure(DocumentFigure):
    """A figure that an aggregation computes from the values of all documents, whatever these are.

    ``ahead``: it takes long, so the resamples of its interval are computed together. A part of the documents, such as
    a single one, may have no figure; where all of them have none, ``fit`` says why. ``share``: the figure is shown as a
    percentage if it is 0 to 1.
    """

    def __init__(
        self,
        name: str,
        compute: ComputeMany,
        *,
        higher_is_better: bool,
        bounds: tuple[float, float] | None = None,
        scale: float = 1.0,
        ahead: bool = False,
        share: bool = False,
    ) -> None:
        super().__init__(name, higher_is_better=higher_is_better)
        self._compute, self.bounds, self.scale, self._share = compute, bounds, scale, share
        self._kept: list[KeptValue] = []
        self._known: dict[bytes, float | None] = {}
        self._waiting: list[Value] = []
        self._ahead = ahead

    def __repr__(self) -> str:
        """Show the name alone: values are not settings."""
        return f"{type(self).__name__}({self.name!r})"

    def fit(self, values: Sequence[Any]) -> None:
        """Refuse values of which there is no figure."""
        numbered = [self._numbered(value) for value in values]
        told = _told(numbered)
        found = self._checked(self._compute([told])[0]) if told else 0.0
        if self._share and 0 <= found <= 1:
            self.scale, self.bounds = 100.0, PERCENT
        self._waiting = numbered if self._ahead and len(numbered) > 1 else []

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value | Absent]:  # noqa: ARG002 - it was measured
        """Return the value of a document; one without a value takes no part."""
        return {self.name: self._numbered(answer)}

    def _numbered(self, measured: Any) -> Value:
        """Keep a value, and return its number; that of a missing one is below 0."""
        if isinstance(measured, Absent):
            return (-1.0, 1.0)
        held = keep(measured)
        self._kept.append(held)
        return (float(held.number), 1.0)

    def reduce(self, name: str, values: Sequence[Value]) -> float | None:  # noqa: ARG002 - there is one name
        """Compute the figure of these documents; of sums of values there is none."""
        if any(value[1] != 1.0 for value in values if isinstance(value, tuple)):
            return None
        told = _told(values)
        if not told:
            return None
        if _key(told) not in self._known:
            self._remember([told, *self._resamples(len(values))])
        return self._known[_key(told)]

    def _resamples(self, size: int) -> list[Numbers]:
        """Return the resamples of all documents, once, when the first of them is asked for."""
        if size != len(self._waiting):
            return []
        waiting, self._waiting = self._waiting, []
        return [told for told in map(_told, bootstrap_samples(waiting)) if told]

    def _remember(self, groups: Sequence[Numbers]) -> None:
        new = {key: group for group in groups if (key := _key(group)) not in self._known}
        for key, found in zip(new, self._compute(list(new.values())), strict=True):
            value = _float(found)
            self._known[key] = value * self.scale if value is not None and math.isfinite(value) else None

    def _checked(self, found: Any) -> float:
        if isinstance(found, DataError):
            raise found
        number = _float(found)
        if number is None:
            raise DataError(f"the aggregation of {self.name} gives {found!r:.80}, which is no number")
        return number


def _told(values: Sequence[Value]) -> Numbers:
    """Return the numbers of the values that are there."""
    return array("q", [int(value[0]) for value in values if isinstance(value, tuple) and value[0] >= 0])


def _key(numbers: Numbers) -> bytes:
    return sha256(numbers.tobytes()).digest()


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
        names = dict.fromkeys(name for each in values for name in each)
        if len(names) > _MAX_FIGURES:
            raise DataError(f"the task measures {len(names):,} figures, and a task may have {_MAX_FIGURES:,}")
        for name in names:
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
