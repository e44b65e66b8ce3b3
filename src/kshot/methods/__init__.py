"""Methods: how a sample is put to a model. A method is a generator that yields requests and returns the answer."""

from kshot.methods.generation import converse, generate, repeat
from kshot.methods.likelihood import (
    Pair,
    highest,
    likelihood,
    lowest_against,
    lowest_per_token,
    perplexity,
    probability,
    rolling_likelihood,
)

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
