"""How log-probabilities are got from vLLM: which sequences it reads, and what each of them is asked.

vLLM tells the probabilities of given tokens after a sequence (cheap, and the sequence may come from its prefix cache),
and those of a sequence's own tokens (prompt logprobs: only for what does not come from the cache). So a continuation of
one token needs its context alone, which all such continuations share; a longer one has its context read first, which is
then in the cache, so that prompt logprobs are computed for little more than its own tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kshot.backends.hf.tokens import Span

Ids = tuple[int, ...]

SHARED = 32
"""Contexts from this many tokens on are read on their own first; what is shorter hardly fills a block of the cache."""


@dataclass(slots=True)
class Reading:
    """One sequence to read, and what is wanted of it; then what was found.

    ``following`` are the tokens that may come next; ``since`` is the first place among its own tokens whose probability
    is wanted, None if none is.
    """

    tokens: Ids
    following: dict[int, float] = field(default_factory=dict)
    since: int | None = None
    own: dict[int, float] = field(default_factory=dict)

    def want(self, place: int) -> None:
        """Want the probabilities of its own tokens from this place on."""
        self.since = place if self.since is None else min(place, self.since)


def plan(spans: Iterable[Span], *, cached: bool) -> dict[Ids, Reading]:
    """Give the readings that answer all spans, those with a common beginning next to each other, the shortest first."""
    readings: dict[Ids, Reading] = {}
    for span in spans:
        tokens, first = span.tokens, span.start
        last = len(tokens) - 1
        if cached and SHARED <= first < last:
            _ask(readings, tokens[:first], tokens[first])
            first += 1
        whole = _ask(readings, tokens[:last], tokens[last])
        if first < last:
            whole.want(first)
    return {tokens: readings[tokens] for tokens in sorted(readings)}


def _ask(readings: dict[Ids, Reading], tokens: Ids, following: int) -> Reading:
    reading = readings.setdefault(tokens, Reading(tokens))
    reading.following[following] = math.nan
    return reading


def logprob(span: Span, readings: Mapping[Ids, Reading]) -> float:
    """Σ log p(token | those before it) over the span, from what its readings found."""
    tokens, last = span.tokens, len(span.tokens) - 1
    whole, context = readings[tokens[:last]], readings.get(tokens[: span.start])
    found = [whole.following[tokens[last]]]
    for place in range(span.start, last):
        if place == span.start and context is not None and tokens[place] in context.following:
            found.append(context.following[tokens[place]])
        else:
            found.append(whole.own[place])
    return math.fsum(found)
