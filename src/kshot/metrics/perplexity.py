"""Perplexity of a corpus, per token."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Sample, Value
from kshot.metrics.metric import Metric


class Perplexity(Metric):
    """Perplexity per token, ``exp(Σ nll / Σ tokens)``: lower is better; it needs no reference.

    The prediction is a pair: the summed negative log-likelihood (nats) of a text and its number of tokens.
    """

    bounds = (1.0, math.inf)
    name = "PPL"
    higher_is_better = False

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value]:  # noqa: ARG002 - the text is its own reference
        """Rate the likelihood of a sample."""
        return self.rate(answer, None)

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Value]:  # noqa: ARG002 - see ``score``
        """Return what one text adds to the two sums."""
        try:
            nll, tokens = prediction
            pair = (float(nll), float(tokens))
        except (TypeError, ValueError):
            raise DataError(
                f"PPL got the prediction {prediction!r}, which is not a pair (nll, tokens)",
                hint="Use a method that gives the likelihood of a text.",
            ) from None
        return {self.name: pair}

    def reduce(self, name: str, values: Sequence[Value]) -> float:
        """Return exp of the mean negative log-likelihood over all tokens."""
        pairs = [value for value in values if isinstance(value, tuple)]
        tokens = math.fsum(pair[1] for pair in pairs)
        if tokens <= 0:
            raise DataError(f"{name} cannot be computed: the texts have no tokens", hint="Leave empty texts out.")
        try:
            return math.exp(math.fsum(pair[0] for pair in pairs) / tokens)
        except OverflowError:
            return math.inf
