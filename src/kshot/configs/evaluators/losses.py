"""Evaluators of losses: how likely a model finds the texts of a dataset. They need no reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.scores import Points
from kshot.core.errors import DataError
from kshot.core.metric import MEAN, Aggregate
from kshot.metrics.aggregates import OfSums


class Loss(Points):
    """A loss per token of all texts; ``value`` reads what an answer adds to it.

    OpenCompass calls it a perplexity, and takes no exponential.
    """

    needs_reference = False

    def __init__(self, value: Callable[[Any], Any], aggregate: Aggregate) -> None:
        name, bounds = "average_ppl", (0.0, math.inf)
        rate = lambda prediction, _: {name: value(prediction)}  # noqa: E731 - it needs no name of its own
        super().__init__(name, rate, bounds, higher_is_better=False, aggregates={name: aggregate})


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
