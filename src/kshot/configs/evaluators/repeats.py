"""Rows that are asked several times: a metric of one reply becomes one of all, as kshot or another project has it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias

from kshot.configs.evaluators.scores import RIGHT, SeesRows
from kshot.core.errors import DataError
from kshot.core.metric import MEAN, Measure, Metric, Whole, judged
from kshot.core.records import Absent, Request, RequestGenerator, Sample
from kshot.metrics import PassAtK
from kshot.metrics.aggregates import OfSums

_THRESHOLDS = (0.0, 0.25, 0.5, 0.75, 1.0)

Form: TypeAlias = Literal["kshot", "opencompass", "ais_bench", "copies"]
"""What is reported of several replies to a row.

- ``kshot``: ``avg@n``, and for each k ``pass@k`` (unbiased) and ``cons@k`` (the majority).
- ``opencompass`` and ``ais_bench``: each figure averaged over the runs; the n-th reply to each row belongs to the n-th
  run. If a k is above 1 and answers are right or wrong, there is more for every k. OpenCompass: ``G-Pass@k_t`` is the
  probability that of k drawn replies at least the share t is right, ``mG-Pass@k`` the mean of that over the shares
  above a half. AISBench: ``avg@n``, ``pass@k``, and ``cons@k``, whether more than half of k replies are right in all.
  Rows with a column ``subdivision`` have them by its values, too.
- ``copies``: the metric over all replies together, under its own names; a row with its copies stays one question.
"""


def repeated(metric: Metric, n: int, ks: Sequence[int] = (), form: Form = "kshot") -> Repeated:
    """Return a metric of n replies to each row."""
    for k in ks:
        if not 0 < k <= n:
            raise DataError(f"k is {k}, and each row is asked {n} times", hint="k must be from 1 to n.")
    return _ByMajority(metric, n, ks) if form == "kshot" else _Runs(metric, n, ks, form)


class Repeated(SeesRows):
    """A metric of several replies to each row. Its measures have the scale of the metric of one reply."""

    def __init__(self, metric: Metric, n: int, ks: Sequence[int]) -> None:
        self.metric, self.n, self.ks = metric, n, tuple(ks)

    @property
    def judge_requests(self) -> Callable[[Sample], Sequence[Request]] | None:
        """What a judge is asked about one reply, as it is about each; None if the metric asks none."""
        return next((each.judge_requests for each in judged([self.metric])), None)

    def see(self, samples: Iterable[Sample]) -> None:
        """Show the samples to the metric."""
        if isinstance(self.metric, SeesRows):
            self.metric.see(samples)

    def _mean(self, name: str, like: Measure) -> Measure:
        """Return the measure of a mean, of the scale of another measure."""
        return Measure(name, bounds=like.bounds, higher_is_better=like.higher_is_better, grouped=True)


class _ByMajority(Repeated):
    """``avg@n``, ``pass@k`` and ``cons@k`` of the first measure."""

    @property
    def measures(self) -> Sequence[Measure]:
        """``avg@n``, and ``pass@k`` and ``cons@k`` for every k."""
        names = (f"avg@{self.n}", *(f"{what}@{k}" for k in self.ks for what in ("pass", "cons")))
        return [self._mean(name, self.metric.measures[0]) for name in names]

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:
        """Rate each reply, and the majority of the first k."""
        rated = {repr(each): self._one(sample, each) for each in answer}
        values = [rated[repr(each)] for each in answer]
        right = sum(value >= RIGHT for value in values)
        found = {f"avg@{self.n}": sum(values) / len(values)}
        for k in self.ks:
            found[f"pass@{k}"] = 100 * PassAtK.estimate_pass_at_k(len(values), right, k)
            majority = Counter(repr(each) for each in answer[:k]).most_common(1)[0][0]
            found[f"cons@{k}"] = rated[majority]
        return found

    def _one(self, sample: Sample, answer: Any) -> float:
        scored = self.metric.score(sample, answer)
        if not isinstance(scored, Mapping):
            raise DataError("a judge cannot be combined with n", hint="Leave n out of the entry.")
        measure = self.metric.measures[0]
        value = scored[measure.name]
        if isinstance(value, Absent):
            raise DataError(f"{measure} cannot be combined with n: {value.why}", hint="Leave n out of the entry.")
        found = measure.aggregate([value])
        if found is None:
            raise DataError(
                f"{measure} cannot be combined with n: one reply has none", hint="Leave n out of the entry."
            )
        return found


class _Runs(Repeated):
    """Each measure of a metric over the runs, or over all replies; and what else a project reports for every k."""

    def __init__(self, metric: Metric, n: int, ks: Sequence[int], form: Form) -> None:
        right_or_wrong = any(measure.binary for measure in metric.measures[:1]) or judged([metric])
        super().__init__(metric, n, ks if max(ks, default=1) > 1 and right_or_wrong else ())
        self.form = form
        self._subdivisions: dict[str, None] = {}

    @property
    def measures(self) -> Sequence[Measure]:
        """``accuracy (4 runs average)`` and so on, then those by k; those of subdivisions are details."""
        first = next(iter(self.metric.measures), Measure(""))
        passed = [self._mean(name, first) for name in self._passed(self.n)]
        divided = [
            replace(each, name=f"{part}/{each}", aggregate=_RATIO, detail=True)
            for part in self._subdivisions
            for each in passed
        ]
        return [*map(self._over_runs, self.metric.measures), *passed, *divided]

    def _over_runs(self, measure: Measure) -> Measure:
        """Return a measure over all runs: a mean stays one, others are computed of all replies or of each run."""
        function = partial(self._together if self.form == "copies" else self._averaged, measure)
        aggregate = MEAN if measure.aggregate.key == MEAN.key else Whole(function)
        own = replace(self._mean(self._name(measure), measure), aggregate=aggregate)
        return replace(own, detail=measure.detail)

    def _name(self, measure: Measure) -> str:
        if self.form == "copies":
            return measure.name
        name = "accuracy" if measure.name == "pass@1" and self.form == "ais_bench" else measure.name
        return f"{name} ({self.n} runs average)"

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the subdivisions, and show the samples to the metric."""
        given = list(samples)
        if self.ks:
            self._subdivisions |= {str(s.fields["subdivision"]): None for s in given if "subdivision" in s.fields}
        super().see(given)

    # ---- one row ----

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any] | RequestGenerator:
        """Score every reply."""
        if judged([self.metric]):
            return self._asked(sample, answer)
        found = [self.metric.score(sample, each) for each in answer]
        return self._joined(sample, [each for each in found if isinstance(each, Mapping)])

    def _asked(self, sample: Sample, answer: Any) -> RequestGenerator:
        found = []
        for each in answer:
            scored = self.metric.score(sample, each)
            found.append(scored if isinstance(scored, Mapping) else (yield from scored))
        return self._joined(sample, found)

    def _joined(self, sample: Sample, found: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the values of the runs: their mean where figures are means, else all of them side by side."""
        joined: dict[str, Any] = {}
        for measure in self.metric.measures:
            values = [each[measure.name] for each in found]
            told = [value for value in values if not isinstance(value, Absent)]
            if len(told) < len(values):
                joined[self._name(measure)] = next(value for value in values if isinstance(value, Absent))
            elif measure.aggregate.key == MEAN.key:
                joined[self._name(measure)] = measure.aggregate(told)
            else:
                parts = (value if isinstance(value, tuple) else (value,) for value in told)
                joined[self._name(measure)] = tuple(part for each in parts for part in each)
        return joined | self._passes(sample, found)

    def _passes(self, sample: Sample, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        if not self.ks:
            return {}
        passed = self._passed(sum(is_right(self.metric.measures[0], each) for each in found))
        mine = str(sample.fields.get("subdivision"))
        divided = {
            f"{each}/{name}": (value, 1.0) if each == mine else (0.0, 0.0)
            for each in self._subdivisions
            for name, value in passed.items()
        }
        return {**passed, **divided}

    def _passed(self, right: int) -> dict[str, float]:
        """Return what a row gets of whose replies so many are right."""
        found = {f"avg@{self.n}": 100 * right / self.n} if self.ks and self.form == "ais_bench" else {}
        for k in self.ks:
            if self.form == "ais_bench":
                found |= {f"pass@{k}": 100 * at_least(1, k, right, self.n), f"cons@{k}": 100.0 * (right > k / 2)}
                continue
            for share in _THRESHOLDS:
                found[f"G-Pass@{k}_{share}"] = 100 * at_least(max(math.ceil(k * share), 1), k, right, self.n)
            above = range(math.ceil(k / 2) + 1, k + 1)
            found[f"mG-Pass@{k}"] = 200 / k * math.fsum(at_least(least, k, right, self.n) for least in above)
        return found

    # ---- all rows ----

    def _averaged(self, measure: Measure, values: Sequence[tuple[Any, ...]]) -> float | None:
        """Average the figures of the runs."""
        figures = [
            found for run in zip(*self._split(values), strict=True) if (found := measure.aggregate(run)) is not None
        ]
        return MEAN(figures) if len(figures) == self.n else None

    def _together(self, measure: Measure, values: Sequence[tuple[Any, ...]]) -> float | None:
        """Measure all replies together."""
        return measure.aggregate([value for each in self._split(values) for value in each])

    def _split(self, values: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
        """Return the values of the replies to each row."""
        width = len(values[0]) // self.n
        cut = [[each[at : at + width] for at in range(0, len(each), width)] for each in values]
        return cut if width > 1 else [[part for (part,) in each] for each in cut]


_RATIO = OfSums(lambda sums: sums[0] / sums[1] if sums[1] else None)


def is_right(measure: Measure, scored: Mapping[str, Any]) -> bool:
    """Whether an answer has any points by a measure."""
    value = scored[measure.name]
    return not isinstance(value, Absent) and (measure.aggregate([value]) or 0.0) > 0


def at_least(least: int, drawn: int, right: int, size: int) -> float:
    """Return the probability that of some drawn ones at least so many are right, if so many of all are right."""
    ways = sum(math.comb(right, i) * math.comb(size - right, drawn - i) for i in range(least, min(right, drawn) + 1))
    return ways / math.comb(size, drawn)
