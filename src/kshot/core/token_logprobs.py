"""The log-probabilities of tokens: asking for them, and finding those of a part of a text."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from kshot.core.records import Generate, Loglik, Request, RequestGenerator, TokenLogprobs
from kshot.core.resuming import of_evaluated, translated


def asking_token_logprobs(method: RequestGenerator) -> RequestGenerator:
    """Drive a method; what it asks of the evaluated model asks for the log-probabilities of the tokens too."""
    return translated(method, request=_asking)


def _asking(request: Request) -> Request:
    if isinstance(request, (Generate, Loglik)) and of_evaluated(request):
        return replace(request, token_logprobs=True)
    return request


def tokens_of(tokens: TokenLogprobs, text: str, *, last: bool = False) -> TokenLogprobs | None:
    """Return the tokens of a part of their text, where it comes first or ``last``; None if it is no part of it.

    A token that reaches beyond the part keeps its log-probability, and shows only what is in the part.
    """
    whole = "".join(each for each, _ in tokens)
    if whole == text:
        return tokens
    start = whole.rfind(text) if last else whole.find(text)
    if start < 0:
        return None
    end = start + len(text)
    ends = list(accumulate(len(each) for each, _ in tokens))
    begins = [0, *ends]
    return tuple(
        (each[max(start - begin, 0) : end - begin], value)
        for (each, value), begin, after in zip(tokens, begins, ends, strict=False)
        if after > start and begin < end
    )
