"""Evaluators of losses: how likely a model finds the texts of a dataset. They need no reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.scores import MeasureFamily
from kshot.core.errors import DataError
from kshot.core.metric import Aggregate
from kshot.core.records import Sample
from kshot.metrics import Metric
from kshot.metrics.aggregates import OfSums


class AverageLoss(Metric):
    """The mean of the losses per token of all texts; OpenCompass calls it a perplexity, and takes no exponential."""

    name = "average_ppl"
    bounds = (0.0, math.inf)
    higher_is_better = False

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:  # noqa: ARG002 - the text is its own reference
        """Take the loss of a sample."""
        return {self.name: self.rate(answer, None)}

    def rate(self, prediction: Any, reference: Any, /) -> float:  # noqa: ARG002 - see ``score``
        """Return the loss."""
        return _number(prediction)


class LossPerToken(MeasureFamily):
    """The loss of all texts together, per token."""

    name = "average_ppl"
    bounds = (0.0, math.inf)
    higher_is_better = False

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:  # noqa: ARG002 - the text is its own reference
        """Take the loss and the tokens of a sample."""
        return self.rate(answer, None)

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:  # noqa: ARG002 - see ``score``
        """Return (loss, tokens) under the name."""
        if not isinstance(prediction, (list, tuple)) or len(prediction) != 2:  # noqa: PLR2004 - loss and tokens
            raise DataError(f"AverageInferencePPLEvaluator takes a loss and a number of tokens, not {prediction!r:.60}")
        return {self.name: (_number(prediction[0]), _number(prediction[1]))}

    def aggregate(self, name: str) -> Aggregate:  # noqa: ARG002 - it has one name
        """Divide the sum of the losses by that of the tokens."""
        return OfSums(lambda sums: sums[0] / sums[1] if sums[1] else 0.0)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DataError(
            f"an evaluator of losses takes a number, not {value!r:.60}", hint="Use PPLOnlyInferencer to compute it."
        )
    return float(value)


EVALUATORS: dict[str, Factory] = {
    "AveragePPLEvaluator": plain(AverageLoss),
    "AverageInferencePPLEvaluator": plain(LossPerToken),
}
