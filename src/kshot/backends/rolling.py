"""Documents longer than a model's window: the windows that together score every token once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from kshot.core.records import Likelihood, RollingStart


def start_token(start: RollingStart, bos: int | None, eos: int | None) -> int | None:
    """Return the token before a document; None if there is none or none is wanted. Without a choice: BOS, else EOS."""
    usual = bos if bos is not None else eos
    return {"auto": usual, "lm-eval": usual, "bos": bos, "eos": eos, "none": None}[start]


def rolling_windows(tokens: Sequence[int], first: int | None, limit: int | None) -> Iterator[tuple[list[int], int]]:
    """Cut a document into windows of at most ``limit`` read tokens; each token is scored in one of them.

    Each window is its tokens and the index of the first one that is scored; its last token is predicted and not read.
    The first window begins with the token ``first`` (None: with the document's own first token, which is not scored).
    Later ones begin one token before those that they score, and the last one begins as early as its length allows.
    """
    whole = [*([] if first is None else [first]), *tokens]
    size = len(whole) - 1 if limit is None else limit
    edges = [*range(0, len(whole) - 1, max(size, 1)), len(whole) - 1]
    for before, end in pairwise(edges):
        # The last window is filled up with context, except where it is the first.
        start = max(end - size, 0)
        yield whole[start : end + 1], before + 1 - start


def summed_windows(found: Sequence[Likelihood], windows: Sequence[int]) -> tuple[Likelihood, ...]:
    """Return one likelihood for each document: the sum over its windows, of which ``windows`` has the counts.

    Without counts, each likelihood stands for itself.
    """
    if not windows:
        return tuple(found)
    remaining = iter(found)
    return tuple(_sum([next(remaining) for _ in range(count)]) for count in windows)


def joined_windows(values: Sequence[Sequence[float]], windows: Sequence[int]) -> list[list[float]]:
    """Return the numbers of each document's tokens, from those of its windows; see ``summed_windows``."""
    counts, remaining = windows or [1] * len(values), iter(values)
    return [[value for _ in range(count) for value in next(remaining)] for count in counts]


def _sum(parts: Sequence[Likelihood]) -> Likelihood:
    known = [part.greedy for part in parts]
    greedy = None if None in known else all(known)
    return Likelihood(math.fsum(part.logprob for part in parts), sum(part.tokens for part in parts), greedy)
