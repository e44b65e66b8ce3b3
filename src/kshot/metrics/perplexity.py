"""How likely texts are: perplexity per token, word, byte and sample, and the share of texts that are greedy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kshot.core.errors import DataError
from kshot.core.metric import Measure
from kshot.core.records import Absent, TextLikelihood
from kshot.metrics.aggregates import BITS, PERPLEXITY
from kshot.metrics.metric import Metric

_MAX_NATS = 700.0
"""exp of more nats than this is no finite number."""


class Perplexity(Metric):
    """Perplexity per token, ``exp(Σ nll / Σ tokens)``: lower is better; it needs no reference.

    The same sums per word and per byte are ``word_perplexity`` and ``byte_perplexity``; ``bits_per_byte`` is
    ``Σ nll / Σ bytes / ln 2``, and ``perplexity`` is ``exp(Σ nll / samples)``, which lm-eval reports for LAMBADA.
    ``documents``: the texts are whole documents, whose probability is too small for a figure per sample.

    The prediction is a ``TextLikelihood``, or a pair: NLL in nats and number of tokens, without words and bytes.
    """

    name = "PPL"
    needs_reference = False

    def __init__(self, *, documents: bool = False) -> None:
        self.documents = documents

    @property
    def measures(self) -> Sequence[Measure]:
        """The figure per token first. Models are compared by it and, for tokenizers that differ, in bits per byte."""
        per_sample = () if self.documents else ("perplexity",)
        return [
            Measure(
                name,
                BITS if name == "bits_per_byte" else PERPLEXITY,
                (0.0, math.inf),
                higher_is_better=False,
                detail=name not in {self.name, "bits_per_byte"},
            )
            for name in (self.name, "word_perplexity", "byte_perplexity", "bits_per_byte", *per_sample)
        ]

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:  # noqa: ARG002 - the text is its own
        """Return what one text adds to the two sums of each figure."""
        nll, tokens = _pair(prediction)
        found: dict[str, Any] = {self.name: (nll, tokens)}
        if isinstance(prediction, TextLikelihood):
            words, size = float(prediction.words), float(prediction.bytes)
            found |= {"word_perplexity": _finite(nll, words), "byte_perplexity": _finite(nll, size)}
            found["bits_per_byte"] = (nll, size)
        else:
            unknown = Absent("the words and bytes of the texts are not known")
            found |= dict.fromkeys(("word_perplexity", "byte_perplexity", "bits_per_byte"), unknown)
        return found if self.documents else found | {"perplexity": _finite(nll, 1.0)}


class Greedy(Metric):
    """Share of targets that the model itself would write, token by token: lm-eval's accuracy for LAMBADA.

    The prediction is a ``TextLikelihood``. A server may not say which token is the likeliest: then there is no figure.
    """

    bounds = (0.0, 100.0)
    binary = True
    name = "acc"
    needs_reference = False

    def rate(self, prediction: Any, reference: Any, /) -> float | Mapping[str, Any]:  # noqa: ARG002 - the text is its own
        """Return 100 for a greedy text, 0 for any other."""
        _pair(prediction)
        if not isinstance(prediction, TextLikelihood) or prediction.greedy is None:
            return {self.name: Absent("it is not known which tokens are the likeliest")}
        return 100.0 if prediction.greedy else 0.0


def _pair(prediction: Any) -> tuple[float, float]:
    try:
        nll, tokens = prediction
        return float(nll), float(tokens)
    except (TypeError, ValueError):
        raise DataError(
            f"PPL got the prediction {prediction!r}, which is not a pair (nll, tokens)",
            hint="Use a method that gives the likelihood of a text.",
        ) from None


def _finite(nll: float, units: float) -> tuple[float, float] | Absent:
    """Return the two sums of a figure, unless the figure of this text alone is too large to be a number."""
    if units > 0 and nll / units > _MAX_NATS:
        return Absent("a text is so unlikely, for its number of words, that the figure is too large to be a number")
    return (nll, units)
