"""Whether a sample is right, by the metric that a user looks at: the headline of its task, or one that is named."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from kshot.core.errors import UsageError
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label
from kshot.runs.headline import TaskOnModel, finite, headlines, task_rows

SampleVerdict: TypeAlias = Literal["right", "partly", "wrong", "failed", "unrated"]
"""``partly``: the score is between the ends of its scale. ``unrated``: the score says neither, or there is none."""

HEADLINE = "headline"
"""How pages name the metric that stands for each task."""

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class MetricScale:
    """A metric, the ends of its scale (None: not known, or infinite), its direction, and the rule that it scores."""

    metric: str
    worst: float | None
    best: float | None
    upwards: bool = True
    rule: str = ""

    @property
    def label(self) -> str:
        """The metric with its rule."""
        return metric_label({"metric": self.metric, "rule": "" if self.rule == self.metric else self.rule})

    def score(self, row: ResultRow) -> float | None:
        """Return the score of a sample; None if it has none."""
        scores = row.get("scores")
        return finite(scores.get(self.metric)) if isinstance(scores, dict) else None

    def verdict(self, row: ResultRow) -> SampleVerdict:
        """Return whether a sample is right."""
        if row.get("failed"):
            return "failed"
        score = self.score(row)
        if score is None or self.best is None or (not self.upwards and _is_likelihood(row.get("answer"))):
            return "unrated"
        if self.is_right(score):
            return "right"
        far = self.worst is None or _reaches(score, self.worst, upwards=not self.upwards)  # TER has no worst score
        return "wrong" if far else "partly"

    def is_right(self, score: float) -> bool:
        """Whether a score is the best of the scale."""
        return self.best is not None and _reaches(score, self.best, upwards=self.upwards)


def _reaches(score: float, end: float, *, upwards: bool) -> bool:
    beyond = score >= end if upwards else score <= end
    return beyond or math.isclose(score, end, rel_tol=_ROUNDING, abs_tol=_ROUNDING)


def _is_likelihood(answer: Any) -> bool:
    """Whether an answer is the likelihood of a text: a text is neither right nor wrong."""
    return isinstance(answer, dict) and "nll" in answer


def with_rules(samples: Iterable[ResultRow], results: Sequence[ResultRow]) -> Iterator[ResultRow]:
    """Yield samples with the ``rule`` that a figure of their task goes by, where its name does not say it."""
    rules = {_key(row): row["rule"] for row in task_rows(results) if row.get("rule")}
    for row in samples:
        rule = rules.get((str(row.get("task")), str(row.get("model", ""))))
        yield row if rule is None else {**row, "rule": rule}


def metric_scales(results: Sequence[ResultRow], metric: str | None = None) -> dict[TaskOnModel, MetricScale]:
    """Return the scale by which the samples of each task and model are right or wrong.

    That is the scale of the headline (of search engines, AC_MRR@10 or nDCG@10), or of ``metric`` where a task has it. A
    metric that no task has is an error.
    """
    rows = list(task_rows(results))
    main = {_key(row): row for row in headlines(rows, _key)}
    if metric is None:
        return {key: _scale(row, row) for key, row in main.items()}
    chosen = {_key(row): row for row in reversed(rows) if row["metric"] == metric}
    if not chosen:
        known = ", ".join(dict.fromkeys(row["metric"] for row in rows)) or "none"
        raise UsageError(f"this run has no metric {metric!r:.80}", hint=f"It has: {known}.")
    return {key: _scale(row, main.get(key, row)) for key, row in chosen.items()}


def _key(row: ResultRow) -> TaskOnModel:
    return row["task"], str(row.get("model", ""))


def _scale(row: ResultRow, headline: ResultRow) -> MetricScale:
    """Return the scale of a metric; a detail has the direction of the headline that it breaks down."""
    low, high = _bounds(row)
    upwards = bool(row.get("higher_is_better", headline.get("higher_is_better", True)))
    worst, best = (low, high) if upwards else (high, low)
    return MetricScale(row["metric"], worst, best, upwards, str(row.get("rule", "")))


def _bounds(row: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the ends of a scale. A folder of version 0.1 does not say them: they are those of the metrics it had."""
    found = row.get("bounds", _early_bounds(row))
    if not isinstance(found, (list, tuple)) or len(found) != 2:  # noqa: PLR2004 - its two ends
        return None, None
    low, high = map(finite, found)
    return low, high


def _early_bounds(row: Mapping[str, Any]) -> tuple[float, float]:
    ranked = "benchmark" in row and ("search" not in row or "@" in row["metric"])
    return (0.0, 1.0) if ranked else (0.0, 100.0)
