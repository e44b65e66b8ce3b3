"""Tokens with their log-probabilities on the screen."""

from __future__ import annotations

from collections.abc import Iterator

from kshot.core.records import TokenLogprobs
from kshot.report.cells import SafeText, assembled, cell, joined
from kshot.report.sample_responses import ReadResponse

_SPACE = "␣"


def tokens_text(tokens: TokenLogprobs) -> SafeText:
    """Return tokens, each before its log-probability; spaces are shown."""
    pairs = (assembled(cell(text.replace(" ", _SPACE)), cell(f"({logprob:.2f})", "dim")) for text, logprob in tokens)
    return joined("  ", pairs)


def token_rows(response: ReadResponse) -> Iterator[tuple[str, SafeText]]:
    """Yield the tokens of each reply, option and measured text that has them."""
    several = len(response.replies) > 1
    for number, tokens in enumerate(response.reply_tokens, start=1):
        if tokens:
            yield f"tokens {number}" if several else "tokens", tokens_text(tokens)
    if any(options := [tokens for tokens in response.options.token_logprobs if tokens]):
        yield "tokens", joined("\n", map(tokens_text, options))
    if response.likelihood_tokens:
        yield "tokens", tokens_text(response.likelihood_tokens)
