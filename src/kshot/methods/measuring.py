"""Measuring texts: how likely a target is after its prompt, or a document by itself."""

from __future__ import annotations

import re
from collections.abc import Callable

from kshot.core.records import (
    Choice,
    Likelihood,
    Loglik,
    Prompt,
    RequestGenerator,
    RollingStart,
    Sample,
    TextLikelihood,
    ask,
)


def likelihood(sample: Sample, choice: Choice) -> RequestGenerator:  # noqa: ARG001 - a method sees its sample
    """Measure one text after its prompt; the answer is a ``TextLikelihood``."""
    (reply,) = yield from ask(Loglik(choice.prompt, (choice.text,), spaced=choice.spaced))
    return _measured(choice.text.strip() if choice.option is None else choice.option, reply.likelihoods[0])


def rolling_likelihood(start: RollingStart = "auto") -> Callable[[Sample, str], RequestGenerator]:
    """Measure documents, which may be longer than the model's window; the answer is a ``TextLikelihood``."""

    def method(sample: Sample, document: str) -> RequestGenerator:  # noqa: ARG001 - a method sees its sample
        (reply,) = yield from ask(Loglik(Prompt(), (document,), rolling=start))
        return _measured(document, reply.likelihoods[0])

    return method


def _measured(text: str, found: Likelihood) -> TextLikelihood:
    """Count the words and bytes of a text as lm-eval does: words are what stands between white space."""
    words, size = len(re.split(r"\s+", text)), len(text.encode("utf-8", "surrogatepass"))
    return TextLikelihood(-found.logprob, found.tokens, words, size, found.greedy)
