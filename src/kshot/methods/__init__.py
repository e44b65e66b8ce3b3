"""Methods: how a sample is put to a model. A method is a generator that yields requests and returns the answer."""

from kshot.methods.conversation import converse
from kshot.methods.generation import generate
from kshot.methods.likelihood import (
    Pair,
    highest,
    lowest_against,
    lowest_per_token,
    perplexity,
    probability,
)
from kshot.methods.measuring import likelihood, rolling_likelihood
from kshot.methods.vote import repeat

__all__ = [
    "Pair",
    "converse",
    "generate",
    "highest",
    "likelihood",
    "lowest_against",
    "lowest_per_token",
    "perplexity",
    "probability",
    "repeat",
    "rolling_likelihood",
]
