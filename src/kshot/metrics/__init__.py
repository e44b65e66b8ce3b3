"""Measures: each rates one answer against one reference, and sums up many."""

from __future__ import annotations

from kshot.metrics.accuracy import Accuracy
from kshot.metrics.bleu import Bleu
from kshot.metrics.exact import Em
from kshot.metrics.f1 import F1
from kshot.metrics.judge import GPTEval
from kshot.metrics.metric import Metric, mean, reference
from kshot.metrics.passatk import PassAtK
from kshot.metrics.perplexity import Perplexity
from kshot.metrics.rouge import Rouge
from kshot.statistics.intervals import Paired, interval, macro_interval, paired

__all__ = [
    "F1",
    "METRICS",
    "Accuracy",
    "Bleu",
    "Em",
    "GPTEval",
    "Metric",
    "Paired",
    "PassAtK",
    "Perplexity",
    "Rouge",
    "describe",
    "interval",
    "macro_interval",
    "mean",
    "paired",
    "reference",
]

METRICS: dict[str, type[Metric]] = {
    metric.__name__: metric for metric in (Accuracy, Em, F1, Bleu, Rouge, Perplexity, PassAtK, GPTEval)
}


def describe() -> dict[str, str]:
    """One line about every metric: the first of its docstring."""
    return {name: (metric.__doc__ or "").strip().split("\n", 1)[0] for name, metric in METRICS.items()}
