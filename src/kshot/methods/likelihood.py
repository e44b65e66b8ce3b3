"""Multiple choice by the probability of each option."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from kshot.core.records import UNANSWERED, Choice, Loglik, Prompt, RequestGenerator, Sample, ask

Pair: TypeAlias = tuple[float, int]
"""Negative log-likelihood in nats, and the number of tokens it sums over."""


def lowest_per_token(pairs: Sequence[Pair]) -> int:
    """Return the index of the lowest NLL per token; the first on a tie."""
    rates = [nll / tokens for nll, tokens in pairs]
    return rates.index(min(rates))


def lowest_against(pairs: Sequence[Pair], baseline: Sequence[Pair]) -> int:
    """Return the index of the lowest NLL(option | prompt) - NLL(option | baseline); the first on a tie."""
    gains = [nll - base for (nll, _), (base, _) in zip(pairs, baseline, strict=True)]
    return gains.index(min(gains))


def highest(probabilities: Sequence[float], count: int) -> int:
    """Return the option with the highest single probability.

    The options may have several spellings: those of the first of ``count`` options are at 0, ``count`` and so on.
    """
    return probabilities.index(max(probabilities)) % count


def likelihoods(choices: Sequence[tuple[Prompt, str]], *, listed: bool = False) -> RequestGenerator:
    """Ask for the likelihood of each text after its prompt; the answer is their pairs, in order.

    Texts after the same prompt share one request.
    """
    by_prompt: dict[Prompt, list[int]] = {}
    for index, (prompt, _) in enumerate(choices):
        by_prompt.setdefault(prompt, []).append(index)
    replies = yield from ask(
        *(
            Loglik(prompt, tuple(choices[index][1] for index in indices), listed=listed)
            for prompt, indices in by_prompt.items()
        )
    )
    pairs: list[Pair] = [(0.0, 0)] * len(choices)
    for indices, reply in zip(by_prompt.values(), replies, strict=True):
        for index, each in zip(indices, reply.likelihoods, strict=True):
            pairs[index] = (-each.logprob, each.tokens)
    return pairs


LikelihoodMethod: TypeAlias = Callable[[Sample, Prompt | Sequence[Choice]], RequestGenerator]


def perplexity(decide: Callable[[list[Pair], list[Pair]], Any] | None = None) -> LikelihoodMethod:
    """Choose the option with the lowest NLL per token, or the lowest against its baseline if choices have one.

    After a plain Prompt the options are the sample's choices, a space before each. ``decide`` replaces the decision.
    """

    def method(sample: Sample, prompt: Prompt | Sequence[Choice]) -> RequestGenerator:
        choices = _choices(sample, prompt)
        baselines = [(choice.baseline, choice.text) for choice in choices if choice.baseline is not None]
        pairs = yield from likelihoods([(choice.prompt, choice.text) for choice in choices] + baselines)
        after_prompt, after_baseline = pairs[: len(choices)], pairs[len(choices) :]
        if decide is not None:
            return decide(after_prompt, after_baseline)
        return lowest_against(after_prompt, after_baseline) if after_baseline else lowest_per_token(after_prompt)

    return method


def probability(decide: Callable[[list[float]], Any] | None = None, *, listed: bool = False) -> LikelihoodMethod:
    """Choose the option with the most probable single spelling of its letter.

    ``listed``: the probabilities come from a list of the likeliest tokens. A question none of whose letters is on the
    list has no answer.
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
    """Measure one text after its prompt; the answer is its NLL and its number of tokens."""
    (pair,) = yield from likelihoods([(choice.prompt, choice.text)])
    return pair


def _choices(sample: Sample, prompt: Prompt | Sequence[Choice]) -> Sequence[Choice]:
    if isinstance(prompt, Prompt):
        return [Choice(prompt, f" {text}") for text in sample.choices]
    return prompt
