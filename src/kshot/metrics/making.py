"""Metrics by name: ``f1``, ``passatk,k=1+10``, ``mine.py:Contains``."""

from __future__ import annotations

from types import FunctionType

from kshot.core.errors import UsageError
from kshot.core.metric import Metric as AnyMetric
from kshot.core.registry import Entry, Registry
from kshot.metrics.metric import Metric, as_metric

METRICS = Registry(
    "metrics",
    "metric",
    [
        Entry("Accuracy", "kshot.metrics.exact:Accuracy"),
        Entry("Em", "kshot.metrics.exact:Em"),
        Entry("F1", "kshot.metrics.exact:F1"),
        Entry("ExactMatch", "kshot.metrics.exact:ExactMatch"),
        Entry("SquadEm", "kshot.metrics.exact:SquadEm"),
        Entry("SquadF1", "kshot.metrics.exact:SquadF1"),
        Entry("Bleu", "kshot.metrics.overlap:Bleu"),
        Entry("Chrf", "kshot.metrics.overlap:Chrf"),
        Entry("Ter", "kshot.metrics.overlap:Ter"),
        Entry("Rouge", "kshot.metrics.overlap:Rouge"),
        Entry("RougeLsum", "kshot.metrics.overlap:RougeLsum"),
        Entry("Greedy", "kshot.metrics.perplexity:Greedy"),
        Entry("Perplexity", "kshot.metrics.perplexity:Perplexity"),
        Entry("PassAtK", "kshot.metrics.passatk:PassAtK"),
        Entry("GPTEval", "kshot.metrics.judge:GPTEval"),
    ],
    accepts=lambda found: isinstance(found, FunctionType) or (isinstance(found, type) and issubclass(found, Metric)),
    any_case=True,
    arguments=2,
)


def make_metric(spec: str) -> AnyMetric:
    """Make the metric that a spec names, such as ``f1``, ``mine.py:Contains,ignore_case=yes``, ``mine.py:function``."""
    made = as_metric(METRICS.make(spec))
    if not isinstance(made, AnyMetric):
        raise UsageError(
            "it is not a metric",
            where=spec,
            hint="Subclass kshot.Metric, or write a function of a prediction and its reference.",
        )
    return made
