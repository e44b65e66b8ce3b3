"""Exact match of normalised answers."""

from __future__ import annotations

from typing import Any

from kshot.metrics.metric import Metric
from kshot.metrics.references import MULTIREF_STRATEGIES, MultiRef, best_over_references, checked_choice, reference_list
from kshot.metrics.words import normalise


class Em(Metric):
    """Exact match after normalisation: 100 when the prediction is one of the references, else 0.

    ``multiref_strategy="leave_one_out"`` takes the mean of the best over all references but one.
    """

    bounds = (0.0, 100.0)
    name = "EM"

    def __init__(self, multiref_strategy: MultiRef = "max") -> None:
        self.multiref_strategy = checked_choice("multiref_strategy", multiref_strategy, MULTIREF_STRATEGIES)

    @property
    def binary(self) -> bool:  # type: ignore[override]  # it depends on an option, so it is read-only
        """Whether the score is 0 or 100: leave_one_out takes a mean."""
        return self.multiref_strategy == "max"

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare one prediction with a list of references."""
        predicted = normalise(prediction)
        return best_over_references(
            lambda answer: 100.0 if normalise(answer) == predicted else 0.0,
            reference_list(reference, self.name),
            self.multiref_strategy,
        )
