"""Metrics made of other metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kshot.core.metric import Measure, Metric
from kshot.core.records import Request, RequestGenerator, Sample


def over(
    metric: Metric, part: Callable[[Any], Any], sample: Callable[[Sample], Sample] = lambda whole: whole
) -> Metric:
    """Return a metric of a part of each answer; ``sample`` gives the sample that the part is an answer to."""
    return _Over(metric, part, sample)


@dataclass(frozen=True)
class _Over:
    metric: Metric
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
