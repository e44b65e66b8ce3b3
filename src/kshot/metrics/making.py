"""Metrics by name: ``f1``, ``passatk,k=1+10``, ``mine.py:Contains``."""

from __future__ import annotations

from types import FunctionType

from kshot.core.errors import UsageError
from kshot.core.metric import Metric as AnyMetric
from kshot.core.registry import Entry, Registry, first_line
from kshot.metrics.accuracy import Accuracy
from kshot.metrics.bleu import Bleu
from kshot.metrics.chrf import Chrf
from kshot.metrics.exact import Em
from kshot.metrics.exact_match import ExactMatch
from kshot.metrics.f1 import F1
from kshot.metrics.judge import GPTEval
from kshot.metrics.metric import Metric, as_metric
from kshot.metrics.passatk import PassAtK
from kshot.metrics.perplexity import Greedy, Perplexity
from kshot.metrics.rouge import Rouge, RougeLsum
from kshot.metrics.squad import SquadEm, SquadF1
from kshot.metrics.ter import Ter

METRICS = Registry(
    "metrics",
    "metric",
    [
        Entry("Accuracy", "kshot.metrics.accuracy:Accuracy", first_line(Accuracy)),
        Entry("Em", "kshot.metrics.exact:Em", first_line(Em)),
        Entry("F1", "kshot.metrics.f1:F1", first_line(F1)),
        Entry("ExactMatch", "kshot.metrics.exact_match:ExactMatch", first_line(ExactMatch)),
        Entry("SquadEm", "kshot.metrics.squad:SquadEm", first_line(SquadEm)),
        Entry("SquadF1", "kshot.metrics.squad:SquadF1", first_line(SquadF1)),
        Entry("Bleu", "kshot.metrics.bleu:Bleu", first_line(Bleu)),
        Entry("Chrf", "kshot.metrics.chrf:Chrf", first_line(Chrf)),
        Entry("Ter", "kshot.metrics.ter:Ter", first_line(Ter)),
        Entry("Rouge", "kshot.metrics.rouge:Rouge", first_line(Rouge)),
        Entry("RougeLsum", "kshot.metrics.rouge:RougeLsum", first_line(RougeLsum)),
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
