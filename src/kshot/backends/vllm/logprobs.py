"""How log-probabilities come from vLLM: which sequences it reads, and what it is asked about each of them.

vLLM gives the probabilities of given tokens after a sequence (cheap, and the sequence may come from its prefix cache),
and those of a sequence's own tokens (prompt logprobs: only for tokens that do not come from the cache). So a
continuation of one token needs its context alone, which all such continuations share. For a longer continuation, the
context is read first. It is then in the cache, so that prompt logprobs are computed for little more than the
continuation's own tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kshot.core.records import Likelihood

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kshot.backends.hf.context_window import TokenIds
    from kshot.backends.hf.tokens import TokenSpan

MIN_CONTEXT_TOKENS = 32
"""Contexts from this many tokens on are read by themselves first; shorter ones hardly fill a block of the cache."""


@dataclass(slots=True)
class LogprobQuery:
    """One sequence to read, the log-probabilities that are wanted of it, and those that were found.

    ``next_tokens`` are the tokens that may come next, with their log-probabilities (NaN until found); ``likeliest`` is
    the token that vLLM would write. ``own_from`` is the index of the first of its own tokens whose log-probability is
    wanted, None if none is; ``own`` has those found, and ``greedy`` the indices of those that are the likeliest there.
    """

    tokens: TokenIds
    next_tokens: dict[int, float] = field(default_factory=dict)
    likeliest: int | None = None
    own_from: int | None = None
    own: dict[int, float] = field(default_factory=dict)
    greedy: set[int] = field(default_factory=set)

    def want_own(self, index: int) -> None:
        """Ask for the log-probabilities of its own tokens from this index on."""
        self.own_from = index if self.own_from is None else min(index, self.own_from)


def plan_queries(spans: Iterable[TokenSpan], *, cached: bool) -> dict[TokenIds, LogprobQuery]:
    """Return the queries that answer all spans, in order: sequences that begin alike are neighbours, shortest first."""
    queries: dict[TokenIds, LogprobQuery] = {}
    for span in spans:
        tokens, first = span.tokens, span.start
        last = len(tokens) - 1
        if cached and MIN_CONTEXT_TOKENS <= first < last:
            _query(queries, tokens[:first], tokens[first])
            first += 1
        whole = _query(queries, tokens[:last], tokens[last])
        if first < last:
            whole.want_own(first)
    return {tokens: queries[tokens] for tokens in sorted(queries)}


def _query(queries: dict[TokenIds, LogprobQuery], tokens: TokenIds, next_token: int) -> LogprobQuery:
    query = queries.setdefault(tokens, LogprobQuery(tokens))
    query.next_tokens[next_token] = math.nan
    return query


def span_likelihood(span: TokenSpan, queries: Mapping[TokenIds, LogprobQuery]) -> Likelihood:
    """Sum log p(token | those before it) over the span, from what its queries found."""
    found, greedy = _found(span, queries)
    return Likelihood(math.fsum(found), len(found), greedy)


def span_logprobs(span: TokenSpan, queries: Mapping[TokenIds, LogprobQuery]) -> list[float]:
    """Return log p(token | those before it) of each token of the span."""
    return _found(span, queries)[0]


def _found(span: TokenSpan, queries: Mapping[TokenIds, LogprobQuery]) -> tuple[list[float], bool]:
    """Return the log-probabilities of the span's tokens, and whether each token is the likeliest at its place."""
    tokens, last = span.tokens, len(span.tokens) - 1
    whole, context = queries[tokens[:last]], queries.get(tokens[: span.start])
    found: list[float] = []
    greedy = whole.likeliest == tokens[last]
    for index in range(span.start, last):
        if index == span.start and context is not None and tokens[index] in context.next_tokens:
            found.append(context.next_tokens[tokens[index]])
            greedy &= context.likeliest == tokens[index]
        else:
            found.append(whole.own[index])
            greedy &= index in whole.greedy
    return [*found, whole.next_tokens[tokens[last]]], greedy
