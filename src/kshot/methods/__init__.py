"""Methods: how a sample is put to a model. Each is a generator of requests and returns the answer."""

from kshot.cleanups.letters import UNANSWERED, last_letter, letter, lettered
from kshot.methods.choose import Pair, highest, likelihood, lowest_against, lowest_per_token, perplexity, probability
from kshot.methods.say import converse, generate, repeat

__all__ = [
    "UNANSWERED",
    "Pair",
    "converse",
    "generate",
    "highest",
    "last_letter",
    "letter",
    "lettered",
    "likelihood",
    "lowest_against",
    "lowest_per_token",
    "perplexity",
    "probability",
    "repeat",
]
