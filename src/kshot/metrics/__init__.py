"""Metrics: each rates one answer against one reference, and reduces many values to one figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshot.core.lazy import lazy_names

if TYPE_CHECKING:
    from kshot.metrics.exact import F1, Accuracy, Em, ExactMatch, SquadEm, SquadF1
    from kshot.metrics.judge import GPTEval
    from kshot.metrics.making import METRICS, make_metric
    from kshot.metrics.metric import Metric
    from kshot.metrics.overlap import Bleu, Chrf, Rouge, RougeLsum, Ter
    from kshot.metrics.passatk import PassAtK
    from kshot.metrics.perplexity import Greedy, Perplexity
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "kshot.metrics.judge": ("GPTEval",),
            "kshot.metrics.making": ("METRICS", "make_metric"),
            "kshot.metrics.exact": ("F1", "Accuracy", "Em", "ExactMatch", "SquadEm", "SquadF1"),
            "kshot.metrics.metric": ("Metric",),
            "kshot.metrics.overlap": ("Bleu", "Chrf", "Rouge", "RougeLsum", "Ter"),
            "kshot.metrics.passatk": ("PassAtK",),
            "kshot.metrics.perplexity": ("Greedy", "Perplexity"),
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
