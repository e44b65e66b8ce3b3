"""Rows that are asked several times, as OpenCompass and AISBench score them: the average of the runs, and by k."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kshot.configs.evaluators.scores import SeesRows
from kshot.core.errors import DataError
from kshot.core.protocols import JudgedScorer
from kshot.core.records import Absent, Request, RequestGenerator, Sample, Value
from kshot.metrics import Metric
from kshot.statistics.figures import OWN_AGGREGATE
from kshot.statistics.resampling import mean

_THRESHOLDS = (0.0, 0.25, 0.5, 0.75, 1.0)


class RunsAverage(SeesRows):
    """Each figure of a metric, averaged over the runs: the n-th reply to each row belongs to the n-th run.

    If a k is above 1 and answers are right or wrong, there is more for every k. OpenCompass: ``G-Pass@k_t`` is the
    probability that of k drawn replies at least the share t is right, ``mG-Pass@k`` the mean of that over the shares
    above a half. AISBench: ``avg@n``, ``pass@k``, and ``cons@k``, whether more than half of k replies are right in all.
    Rows with a column ``subdivision`` have them by its values, too.
    """

    grouped = True

    def __init__(self, metric: Metric, n: int, ks: Sequence[int] = (), framework: str = "opencompass") -> None:
        self.metric, self.n, self.framework = metric, n, framework
        self.ks = tuple(ks) if max(ks, default=1) > 1 and (metric.binary or isinstance(metric, JudgedScorer)) else ()
        self.higher_is_better = metric.higher_is_better
        self._subdivisions: dict[str, None] = {}
        for k in ks:
            if not 0 < k <= n:
                raise DataError(f"k is {k}, and each row is asked {n} times", hint="k must be from 1 to n.")

    def __repr__(self) -> str:
        """Show the settings alone: the subdivisions are the rows'."""
        return f"RunsAverage({self.metric!r}, {self.n}, {self.ks!r})"

    @property
    def name(self) -> str:  # type: ignore[override]  # made from the metric's, so it is read-only
        """That of the first figure."""
        return self._averaged(self.metric.names[0]) if self.metric.names else ""

    @property
    def bounds(self) -> tuple[float, float] | None:  # type: ignore[override]  # as above
        """The ends of the scale: those of the repeated metric."""
        return self.metric.bounds

    @property
    def names(self) -> tuple[str, ...]:
        """``accuracy (4 runs average)`` and so on, then G-Pass@k."""
        passed = [*self._passed(self.n)]
        return (*map(self._averaged, self.metric.names), *passed, *self._divided())

    @property
    def details(self) -> tuple[str, ...]:
        """Those of the metric, and those of subdivisions."""
        return (*map(self._averaged, self.metric.details), *self._divided())

    @property
    def aggregates(self) -> Mapping[str, str]:
        """What is no mean of the replies is computed by the metric."""
        own = {self._averaged(name): OWN_AGGREGATE for name in self.metric.aggregates}
        return own | dict.fromkeys(self._divided(), OWN_AGGREGATE)

    def _divided(self) -> list[str]:
        """Return the names of the figures of subdivisions."""
        return [f"{each}/{name}" for each in self._subdivisions for name in self._passed(self.n)]

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the subdivisions, and show the samples to the metric."""
        given = list(samples)
        if self.ks:
            self._subdivisions |= {str(s.fields["subdivision"]): None for s in given if "subdivision" in s.fields}
        if isinstance(self.metric, SeesRows):
            self.metric.see(given)

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value | Absent] | RequestGenerator:
        """Score every reply."""
        if isinstance(self.metric, JudgedScorer):
            return self._asked(sample, answer)
        found = [self.metric.score(sample, each) for each in answer]
        return self._joined(sample, [each for each in found if isinstance(each, Mapping)])

    def _asked(self, sample: Sample, answer: Any) -> RequestGenerator:
        found = []
        for each in answer:
            scored = self.metric.score(sample, each)
            found.append(scored if isinstance(scored, Mapping) else (yield from scored))
        return self._joined(sample, found)

    def _joined(self, sample: Sample, found: Sequence[Mapping[str, Value | Absent]]) -> Mapping[str, Value | Absent]:
        """Return the values of the runs: their mean where figures are means, else all of them side by side."""
        joined: dict[str, Value | Absent] = {}
        for name in self.metric.names:
            values = [each[name] for each in found]
            told = [value for value in values if not isinstance(value, Absent)]
            if len(told) < len(values):
                joined[self._averaged(name)] = next(value for value in values if isinstance(value, Absent))
            elif name in self.metric.aggregates:
                joined[self._averaged(name)] = tuple(part for value in told for part in _parts(value))
            else:
                joined[self._averaged(name)] = mean(told)
        return joined | self._passes(sample, found)

    def _passes(self, sample: Sample, found: Sequence[Mapping[str, Value | Absent]]) -> dict[str, Value]:
        if not self.ks:
            return {}
        first = self.metric.names[0]
        told = [each[first] for each in found]
        right = sum((self.metric.reduce(first, [value]) or 0.0) > 0 for value in told if not isinstance(value, Absent))
        passed = self._passed(right)
        mine = str(sample.fields.get("subdivision"))
        divided = {
            f"{each}/{name}": (value, 1.0) if each == mine else (0.0, 0.0)
            for each in self._subdivisions
            for name, value in passed.items()
        }
        return {**passed, **divided}

    def _passed(self, right: int) -> dict[str, float]:
        """Return what a row gets of whose replies so many are right."""
        found = {f"avg@{self.n}": 100 * right / self.n} if self.ks and self.framework == "ais_bench" else {}
        for k in self.ks:
            if self.framework == "ais_bench":
                found |= {f"pass@{k}": 100 * at_least(1, k, right, self.n), f"cons@{k}": 100.0 * (right > k / 2)}
                continue
            for share in _THRESHOLDS:
                found[f"G-Pass@{k}_{share}"] = 100 * at_least(max(math.ceil(k * share), 1), k, right, self.n)
            above = range(math.ceil(k / 2) + 1, k + 1)
            found[f"mG-Pass@{k}"] = 200 / k * math.fsum(at_least(least, k, right, self.n) for least in above)
        return found

    def reduce(self, name: str, values: Sequence[Value]) -> float | None:
        """Average the figures of the runs."""
        if name in self._divided():
            pairs = [value for value in values if isinstance(value, tuple)]
            total, count = (math.fsum(column) for column in zip(*pairs, strict=True))
            return total / count if count else None
        inner = next((each for each in self.metric.aggregates if self._averaged(each) == name), None)
        if inner is None:
            return mean(values)
        split = [value for value in values if isinstance(value, tuple)]
        width = len(split[0]) // self.n
        runs = [[_value(each[at : at + width]) for each in split] for at in range(0, len(split[0]), width)]
        figures = [found for run in runs if (found := self.metric.reduce(inner, run)) is not None]
        return mean(figures) if len(figures) == len(runs) else None

    @property
    def _suffix(self) -> str:
        return f" ({self.n} runs average)"

    def _averaged(self, name: str) -> str:
        return ("accuracy" if name == "pass@1" and self.framework == "ais_bench" else name) + self._suffix


class JudgedRunsAverage(RunsAverage):
    """The average of runs that a judge rates: a run must know that it asks one."""

    def judge_requests(self, sample: Sample) -> Sequence[Request]:
        """Return what the judge is asked about one reply; it is asked about each."""
        return self.metric.judge_requests(sample) if isinstance(self.metric, JudgedScorer) else ()


def runs_average(metric: Metric, n: int, ks: Sequence[int], framework: str) -> RunsAverage:
    """Return the average of n runs of a metric."""
    made = JudgedRunsAverage if isinstance(metric, JudgedScorer) else RunsAverage
    return made(metric, n, ks, framework)


def _parts(value: Value) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,)


def _value(parts: tuple[float, ...]) -> Value:
    return parts if len(parts) > 1 else parts[0]


def at_least(least: int, drawn: int, right: int, size: int) -> float:
    """Return the probability that of some drawn ones at least so many are right, if so many of all are right."""
    ways = sum(math.comb(right, i) * math.comb(size - right, drawn - i) for i in range(least, min(right, drawn) + 1))
    return ways / math.comb(size, drawn)
