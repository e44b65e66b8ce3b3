"""Evaluators of losses: how likely a model finds the texts of a dataset. They need no reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.scores import MeasureFamily
from kshot.core.errors import DataError
from kshot.core.metric import MEAN, Aggregate
from kshot.core.records import Sample
from kshot.metrics.aggregates import OfSums


class Loss(MeasureFamily):
    """A loss per token of all texts; ``value`` reads what an answer adds to it.

    OpenCompass calls it a perplexity, and takes no exponential.
    """

    name = "average_ppl"
    bounds = (0.0, math.inf)
    higher_is_better = False

    def __init__(self, value: Callable[[Any], Any], aggregate: Aggregate) -> None:
        self._value, self._aggregate = value, aggregate

    def aggregate(self, name: str) -> Aggregate:  # noqa: ARG002 - it has one name
        """Return how the losses of the texts become that of all."""
        return self._aggregate

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:  # noqa: ARG002 - the text is its own reference
        """Take the loss of a sample."""
        return self.rate(answer, None)

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:  # noqa: ARG002 - see ``score``
        """Return the loss under the name."""
        return {self.name: self._value(prediction)}


def _loss_and_tokens(prediction: Any) -> tuple[float, float]:
    if not isinstance(prediction, (list, tuple)) or len(prediction) != 2:  # noqa: PLR2004 - loss and tokens
        raise DataError(f"AverageInferencePPLEvaluator takes a loss and a number of tokens, not {prediction!r:.60}")
    return _number(prediction[0]), _number(prediction[1])


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DataError(
            f"an evaluator of losses takes a number, not {value!r:.60}", hint="Use PPLOnlyInferencer to compute it."
        )
    return float(value)


EVALUATORS: dict[str, Factory] = {
    "AveragePPLEvaluator": plain(Loss, _number, MEAN),  # the mean of the losses per token
    "AverageInferencePPLEvaluator": plain(  # the loss of all texts together, by their tokens
        Loss, _loss_and_tokens, OfSums(lambda sums: sums[0] / sums[1] if sums[1] else 0.0)
    ),
}
