"""Metrics: each rates one answer against one reference, and reduces many values to one figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshot.core.lazy import lazy_names

if TYPE_CHECKING:
    from kshot.metrics.accuracy import Accuracy
    from kshot.metrics.bleu import Bleu
    from kshot.metrics.chrf import Chrf
    from kshot.metrics.exact import Em
    from kshot.metrics.exact_match import ExactMatch
    from kshot.metrics.f1 import F1
    from kshot.metrics.judge import GPTEval
    from kshot.metrics.making import METRICS, make_metric
    from kshot.metrics.metric import Metric
    from kshot.metrics.passatk import PassAtK
    from kshot.metrics.perplexity import Greedy, Perplexity
    from kshot.metrics.rouge import Rouge, RougeLsum
    from kshot.metrics.squad import SquadEm, SquadF1
    from kshot.metrics.ter import Ter
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "kshot.metrics.accuracy": ("Accuracy",),
            "kshot.metrics.bleu": ("Bleu",),
            "kshot.metrics.chrf": ("Chrf",),
            "kshot.metrics.exact": ("Em",),
            "kshot.metrics.exact_match": ("ExactMatch",),
            "kshot.metrics.f1": ("F1",),
            "kshot.metrics.judge": ("GPTEval",),
            "kshot.metrics.making": ("METRICS", "make_metric"),
            "kshot.metrics.metric": ("Metric",),
            "kshot.metrics.passatk": ("PassAtK",),
            "kshot.metrics.perplexity": ("Greedy", "Perplexity"),
            "kshot.metrics.rouge": ("Rouge", "RougeLsum"),
            "kshot.metrics.squad": ("SquadEm", "SquadF1"),
            "kshot.metrics.ter": ("Ter",),
        },
    )

__all__ = [
    "F1",
    "METRICS",
    "Accuracy",
    "Bleu",
    "Chrf",
    "Em",
    "ExactMatch",
    "GPTEval",
    "Greedy",
    "Metric",
    "PassAtK",
    "Perplexity",
    "Rouge",
    "RougeLsum",
    "SquadEm",
    "SquadF1",
    "Ter",
    "make_metric",
]
