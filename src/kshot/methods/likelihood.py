"""Multiple choice by the probability of each option; and how likely a text is, after its prompt or by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from kshot.core.records import (
    UNANSWERED,
    AnyOption,
    Choice,
    Explained,
    Likelihood,
    Loglik,
    Prompt,
    RequestGenerator,
    RollingStart,
    Sample,
    Target,
    TextLikelihood,
    ask,
)

Pair: TypeAlias = tuple[float, int]
"""Negative log-likelihood in nats, and the number of tokens it sums over."""

AccuracyRule: TypeAlias = Literal["acc", "acc_norm", "acc_bytes", "acc_token", "acc_mutual_info"]
"""What options are compared by: log-likelihood, that per character, byte or token, or minus a baseline's."""

RULES: tuple[AccuracyRule, ...] = get_args(AccuracyRule)
"""All rules; lm-eval has the same names, but for ``acc_token``."""

OnTie: TypeAlias = Literal["none", "first"]
"""The answer where several options come first: none of them, or the first."""


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


def best(values: Sequence[float], alike: Sequence[object] = ()) -> tuple[int, ...]:
    """Return the indices of the options that come first: one, or several on a tie.

    Options that are ``alike`` (equal objects, one for each value) tie, whatever noise their values have.
    """
    top = max(values)
    equal = [i for i, value in enumerate(values) if value == top]
    kinds = {alike[i] for i in equal} if alike else set()
    return tuple(i for i in range(len(values)) if i in equal or (alike and alike[i] in kinds))


def chosen(first: Sequence[int], target: Target | None, on_tie: OnTie) -> int:
    """Return the option that counts among those that come first. A tie of options that are all right is no doubt."""
    right = target.indices if isinstance(target, AnyOption) else ()
    return first[0] if len(first) == 1 or on_tie == "first" or set(first) <= set(right) else UNANSWERED


@dataclass(frozen=True, slots=True)
class Measured:
    """One option: its likelihood after the prompt, after the baseline if there is one, and the option itself."""

    likelihood: Likelihood
    baseline: Likelihood | None
    option: str

    def value(self, rule: AccuracyRule) -> float:
        """Return what a rule compares; the highest wins."""
        logprob = self.likelihood.logprob
        match rule:
            case "acc":
                return logprob
            case "acc_norm":
                return logprob / max(len(self.option), 1)
            case "acc_bytes":
                return logprob / max(len(self.option.encode("utf-8", "surrogatepass")), 1)
            case "acc_token":
                return logprob / self.likelihood.tokens
            case "acc_mutual_info":
                return logprob - (self.baseline.logprob if self.baseline is not None else 0.0)


def decide_by(options: Sequence[Measured], sample: Sample, headline: AccuracyRule, on_tie: OnTie) -> Explained:
    """Choose an option by every rule; the answer is that of the headline."""
    others: dict[str, int] = {}
    tied: list[str] = []
    for rule in RULES:
        if rule == "acc_mutual_info" and any(each.baseline is None for each in options):
            continue
        first = best([each.value(rule) for each in options], _alike(sample, len(options)))
        others[rule] = chosen(first, sample.target, on_tie)
        if len(first) > 1:
            tied.append(rule)
    return Explained(others[headline], others=others, tied=(*tied, *([""] if headline in tied else [])))


def _alike(sample: Sample, count: int) -> list[str]:
    """Return what makes options the same: their texts."""
    return [text.strip() for text in sample.choices] if len(sample.choices) == count else []


def likelihoods(
    choices: Sequence[tuple[Prompt, str]],
    baselines: Sequence[tuple[Prompt, str]] = (),
    *,
    listed: bool = False,
    spaced: bool = False,
) -> RequestGenerator:
    """Ask for the likelihood of each text after its prompt; the answer is a ``Likelihood`` for each, in order.

    Texts after the same prompt share one request. ``baselines`` follow the choices. After an empty baseline the first
    token counts too: it is predicted after BOS, else EOS. ``spaced``: see ``Loglik``; it is for the choices.
    """
    texts = [text for _, text in (*choices, *baselines)]
    keys: list[tuple[Prompt, RollingStart | None]] = [(prompt, None) for prompt, _ in choices]
    keys += [(prompt, None if prompt.text or prompt.messages else "auto") for prompt, _ in baselines]
    by_key: dict[tuple[Prompt, RollingStart | None], list[int]] = {}
    for index, key in enumerate(keys):
        by_key.setdefault(key, []).append(index)
    replies = yield from ask(
        *(
            Loglik(
                prompt,
                tuple(texts[index] for index in indices),
                listed=listed,
                rolling=start,
                spaced=spaced and indices[0] < len(choices),
            )
            for (prompt, start), indices in by_key.items()
        )
    )
    found: list[Likelihood] = [Likelihood(0.0, 0)] * len(texts)
    for indices, reply in zip(by_key.values(), replies, strict=True):
        for index, each in zip(indices, reply.likelihoods, strict=True):
            found[index] = each
    return found


LikelihoodMethod: TypeAlias = Callable[[Sample, Prompt | Sequence[Choice]], RequestGenerator]


def perplexity(
    decide: Callable[[list[Pair], list[Pair]], Any] | None = None,
    *,
    rule: AccuracyRule | None = None,
    on_tie: OnTie = "none",
) -> LikelihoodMethod:
    """Choose the most likely option, by every rule that the likelihoods allow.

    ``rule`` chooses the answer: by default ``acc_mutual_info`` where choices have a baseline, else
    ``acc_token``. After a plain Prompt the options are the sample's choices, a space before each. ``decide`` replaces
    the decision.
    """

    def method(sample: Sample, prompt: Prompt | Sequence[Choice]) -> RequestGenerator:
        choices = _choices(sample, prompt)
        baselines = [(choice.baseline, choice.text) for choice in choices if choice.baseline is not None]
        spaced = any(choice.spaced for choice in choices)
        replies = yield from likelihoods([(choice.prompt, choice.text) for choice in choices], baselines, spaced=spaced)
        after_prompt, after_baseline = replies[: len(choices)], replies[len(choices) :]
        measured = [
            Measured(own, base, choice.text.strip() if choice.option is None else choice.option)
            for own, base, choice in zip(after_prompt, after_baseline or [None] * len(choices), choices, strict=True)
        ]
        found = decide_by(measured, sample, rule or ("acc_mutual_info" if after_baseline else "acc_token"), on_tie)
        if decide is None:
            return found
        own = decide(_pairs(after_prompt), _pairs(after_baseline))
        return Explained(own, tied=("",)) if "" in found.tied else own

    return method


def probability(
    decide: Callable[[list[float]], Any] | None = None, *, listed: bool = False, on_tie: OnTie = "none"
) -> LikelihoodMethod:
    """Choose the option with the most probable single spelling of its letter.

    ``listed``: the probabilities come from a list of the likeliest tokens. A question none of whose letters is on the
    list has no answer.
    """

    def method(sample: Sample, prompt: Prompt | Sequence[Choice]) -> RequestGenerator:
        choices = _choices(sample, prompt)
        spaced = any(choice.spaced for choice in choices)
        found = yield from likelihoods([(c.prompt, c.text) for c in choices], listed=listed, spaced=spaced)
        logprobs = [each.logprob for each in found]
        unlisted = listed and max(logprobs) == min(logprobs)
        count = len(sample.choices) or len(choices)
        first = best([max(logprobs[index::count]) for index in range(count)], _alike(sample, count))
        tied = ("",) if len(first) > 1 and not unlisted else ()
        if decide is not None:
            return Explained(decide(logprobs), tied=tied) if tied else decide(logprobs)
        return UNANSWERED if unlisted else Explained(chosen(first, sample.target, on_tie), tied=tied)

    return method


def _pairs(found: Sequence[Likelihood]) -> list[Pair]:
    return [(-each.logprob, each.tokens) for each in found]


def _choices(sample: Sample, prompt: Prompt | Sequence[Choice]) -> Sequence[Choice]:
    if isinstance(prompt, Prompt):
        return [Choice(prompt, f" {text}", option=text) for text in sample.choices]
    return prompt


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
