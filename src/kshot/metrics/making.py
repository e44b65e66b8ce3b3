"""Metrics by name: ``f1``, ``passatk,k=1+10``, ``mine.py:Contains``."""

from __future__ import annotations

from types import FunctionType

from kshot.core.errors import UsageError
from kshot.core.metric import Metric as AnyMetric
from kshot.core.registry import Entry, Registry, first_line
from kshot.metrics.judge import GPTEval
from kshot.metrics.matching import F1, Accuracy, Em, ExactMatch, SquadEm, SquadF1
from kshot.metrics.metric import Metric, as_metric
from kshot.metrics.overlap import Bleu, Chrf, Rouge, RougeLsum, Ter
from kshot.metrics.passatk import PassAtK
from kshot.metrics.perplexity import Greedy, Perplexity

METRICS = Registry(
    "metrics",
    "metric",
    [
        Entry("Accuracy", "kshot.metrics.matching:Accuracy", first_line(Accuracy)),
        Entry("Em", "kshot.metrics.matching:Em", first_line(Em)),
        Entry("F1", "kshot.metrics.matching:F1", first_line(F1)),
        Entry("ExactMatch", "kshot.metrics.matching:ExactMatch", first_line(ExactMatch)),
        Entry("SquadEm", "kshot.metrics.matching:SquadEm", first_line(SquadEm)),
        Entry("SquadF1", "kshot.metrics.matching:SquadF1", first_line(SquadF1)),
        Entry("Bleu", "kshot.metrics.overlap:Bleu", first_line(Bleu)),
        Entry("Chrf", "kshot.metrics.overlap:Chrf", first_line(Chrf)),
        Entry("Ter", "kshot.metrics.overlap:Ter", first_line(Ter)),
        Entry("Rouge", "kshot.metrics.overlap:Rouge", first_line(Rouge)),
        Entry("RougeLsum", "kshot.metrics.overlap:RougeLsum", first_line(RougeLsum)),
        Entry("Greedy", "kshot.metrics.perplexity:Greedy", first_line(Greedy)),
        Entry("Perplexity", "kshot.metrics.perplexity:Perplexity", first_line(Perplexity)),
        Entry("PassAtK", "kshot.metrics.passatk:PassAtK", first_line(PassAtK)),
        Entry("GPTEval", "kshot.metrics.judge:GPTEval", first_line(GPTEval)),
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
