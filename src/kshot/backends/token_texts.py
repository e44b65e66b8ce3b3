"""Which part of a text each token shows. Tokens that are parts of one character are one piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeAlias

from kshot.core.records import Likelihood, TokenLogprobs

Pieces: TypeAlias = list[tuple[str, int]]
"""Parts of a text, each with the number of tokens that it stands for; together they are the text."""

_HALF_CHARACTER = "\ufffd"
"""What decoders show for tokens that end within a character."""
_CONTEXT_TOKENS = 8
"""Tokens before a token that are decoded along with it."""


def read_pieces(text: str, ends: Sequence[int], start: int) -> Pieces:
    """Return the pieces of a text from the character ``start`` on, for tokens that end at these characters.

    The bytes of one character may be several tokens: all of them end where the character does. White space that a
    tokenizer leaves out belongs to the token behind it, and at the end of the text to the last token.
    """
    found: Pieces = []
    place = start
    for end in ends:
        if found and end <= place:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((text[place:end], 1))
            place = max(place, end)
    if found:
        found[-1] = (found[-1][0] + text[place:], found[-1][1])
    return found


def document_pieces(text: str, ends: Sequence[int], *, scores_first: bool, before: int = 0) -> Pieces:
    """Return the pieces of a document, with so many scored tokens ``before`` it that show nothing of it."""
    own = read_pieces(text, ends, 0) if scores_first else read_pieces(text, ends[1:], *ends[:1])
    return [("", 1)] * before + own


def written_pieces(
    decode_after: Callable[[Sequence[int], Sequence[int]], str], before: Sequence[int], tokens: Sequence[int]
) -> Pieces:
    """Return the pieces of what tokens add ``before`` others; ``decode_after`` returns the text that tokens add."""
    found: Pieces = []
    context, pending = list(before[-_CONTEXT_TOKENS:]), list[int]()
    for token in tokens:
        pending.append(token)
        text = decode_after(context, pending)
        if not text.endswith(_HALF_CHARACTER):
            found.append((text, len(pending)))
            context, pending = [*context, *pending][-_CONTEXT_TOKENS:], []
    if pending:
        found.append((decode_after(context, pending), len(pending)))
    whole = decode_after(before, tokens)
    return found if "".join(text for text, _ in found) == whole else _by_prefixes(decode_after, before, tokens, whole)


def _by_prefixes(
    decode_after: Callable[[Sequence[int], Sequence[int]], str],
    before: Sequence[int],
    tokens: Sequence[int],
    whole: str,
) -> Pieces:
    """Return the pieces where more tokens than a few decide what a token shows: each prefix is decoded whole."""
    found: Pieces = []
    place = counted = 0
    for count in range(1, len(tokens) + 1):
        text = whole if count == len(tokens) else decode_after(before, tokens[:count])
        if len(text) >= place and whole.startswith(text):
            found.append((whole[place : len(text)], count - counted))
            place, counted = len(text), count
    return found


def summed_pieces(pieces: Pieces, values: Sequence[float]) -> TokenLogprobs:
    """Return pieces with the log-probabilities of their tokens."""
    edges = [0, *accumulate(count for _, count in pieces)]
    return tuple(
        (text, values[start] if count == 1 else sum(values[start : start + count]))
        for (text, count), start in zip(pieces, edges, strict=False)
    )


def with_token_logprobs(
    found: Sequence[Likelihood], pieces: Sequence[Pieces], values: Sequence[Sequence[float]]
) -> tuple[Likelihood, ...]:
    """Return likelihoods with the log-probabilities of their tokens; ``values`` are those of every token."""
    parts = zip(found, pieces, values, strict=True)
    return tuple(replace(each, token_logprobs=summed_pieces(own, numbers)) for each, own, numbers in parts)
