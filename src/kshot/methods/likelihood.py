"""Multiple choice by the probability of each option."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from kshot.core.records import UNANSWERED, Choice, Loglik, Prompt, RequestGenerator, Sample, ask

Pair: TypeAlias = tuple[float, int]
"""Negative log-likelihood in nats, and the number of tokens it sums over."""


def lowest_per_token(pairs: Sequence[Pair]) -> int:
    """Index of the lowest NLL / tokens; the first on a tie."""
    rates = [nll / tokens for nll, tokens in pairs]
    return rates.index(min(rates))


def lowest_against(pairs: Sequence[Pair], baseline: Sequence[Pair]) -> int:
    """Index of the lowest NLL(option | prompt) - NLL(option | baseline); the first on a tie."""
    gains = [nll - base for (nll, _), (base, _) in zip(pairs, baseline, strict=True)]
    return gains.index(min(gains))


def highest(probabilities: Sequence[float], count: int) -> int:
    """Index among ``count`` options of the highest single one; spellings of one option stand ``count`` apart."""
    return probabilities.index(max(probabilities)) % count


def likelihoods(choices: Sequence[tuple[Prompt, str]], *, listed: bool = False) -> RequestGenerator:
    """Ask for the likelihood of every text after its prompt, one request per distinct prompt; pairs come in order."""
    places: dict[Prompt, list[int]] = {}
    for place, (prompt, _) in enumerate(choices):
        places.setdefault(prompt, []).append(place)
    replies = yield from ask(
        *(
            Loglik(prompt, tuple(choices[place][1] for place in found), listed=listed)
            for prompt, found in places.items()
        )
    )
    pairs: list[Pair] = [(0.0, 0)] * len(choices)
    for found, reply in zip(places.values(), replies, strict=True):
        for place, each in zip(found, reply.likelihoods, strict=True):
            pairs[place] = (-each.logprob, each.tokens)
    return pairs


LikelihoodMethod: TypeAlias = Callable[[Sample, Prompt | Sequence[Choice]], RequestGenerator]


def perplexity(decide: Callable[[list[Pair], list[Pair]], Any] | None = None) -> LikelihoodMethod:
    """Choose the option that is least surprising per token, or against its baseline where choices have one.

    A plain Prompt is taken with the sample's own choices, a space before each. ``decide`` may replace the decision.
    """

    def method(sample: Sample, prompt: Prompt | Sequence[Choice]) -> RequestGenerator:
        choices = _choices(sample, prompt)
        based = [choice for choice in choices if choice.baseline is not None]
        pairs = yield from likelihoods(
            [(c.prompt, c.text) for c in choices] + [(c.baseline, c.text) for c in based if c.baseline is not None]
        )
        here, there = pairs[: len(choices)], pairs[len(choices) :]
        if decide is not None:
            return decide(here, there)
        return lowest_against(here, there) if there else lowest_per_token(here)

    return method


def probability(decide: Callable[[list[float]], Any] | None = None, *, listed: bool = False) -> LikelihoodMethod:
    """Choose the option with the most probable single spelling of its letter.

    ``listed``: from a list of the likeliest tokens; a question none of whose letters is on it has no answer.
    """

    def method(sample: Sample, prompt: Prompt | Sequence[Choice]) -> RequestGenerator:
        choices = _choices(sample, prompt)
        pairs = yield from likelihoods([(c.prompt, c.text) for c in choices], listed=listed)
        logprobs = [-nll for nll, _ in pairs]
        if listed and decide is None and max(logprobs) == min(logprobs):
            return UNANSWERED
        return highest(logprobs, len(sample.choices) or len(choices)) if decide is None else decide(logprobs)

    return method


def likelihood(sample: Sample, choice: Choice) -> RequestGenerator:  # noqa: ARG001 - a method sees its sample
    """Measure one text after its prompt: the answer is its NLL and its number of tokens."""
    (pair,) = yield from likelihoods([(choice.prompt, choice.text)])
    return pair


def _choices(sample: Sample, prompt: Prompt | Sequence[Choice]) -> Sequence[Choice]:
    if isinstance(prompt, Prompt):
        return [Choice(prompt, f" {text}") for text in sample.choices]
    return prompt
