"""ROUGE, computed by rouge_score."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from kshot.core.records import Value
from kshot.metrics.metric import Metric
from kshot.metrics.references import reference_texts

_KINDS = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}


@cache
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(_KINDS.values()), use_stemmer=True)


class Rouge(Metric):
    """F-measure of stemmed words: single words, pairs of words, and the longest common subsequence.

    With several references, each of the three takes the best.
    """

    bounds = (0.0, 100.0)
    name = "ROUGE-L"

    @property
    def names(self) -> tuple[str, ...]:
        """ROUGE-1, ROUGE-2 and ROUGE-L."""
        return tuple(_KINDS)

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Value]:
        """Compare one prediction with a text, or a list of texts."""
        found = [_scorer().score(text, str(prediction)) for text in reference_texts(reference, "ROUGE")]
        return {name: max(float(scores[kind].fmeasure) for scores in found) * 100 for name, kind in _KINDS.items()}
