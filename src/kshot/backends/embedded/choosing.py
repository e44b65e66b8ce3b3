"""The next token of a text, by the request alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kshot.core.records import Generate, digest


def next_token(logits: NDArray[np.float32], request: Generate, prompt: Sequence[int], new: Sequence[int]) -> int:
    """Choose: the most likely token at temperature 0, else a sample by Gumbel-max from noise that the request seeds."""
    scores = logits.astype(np.float64)
    if request.repetition_penalty not in {None, 1.0}:
        seen = np.unique([*prompt, *new])
        penalty = float(request.repetition_penalty or 1.0)
        scores[seen] = np.where(scores[seen] > 0, scores[seen] / penalty, scores[seen] * penalty)
    for token in _repeats([*prompt, *new], request.no_repeat_ngram_size or 0):
        scores[token] = -np.inf
    if request.temperature <= 0:
        return int(scores.argmax())
    scores /= request.temperature
    if request.top_k is not None and request.top_k < len(scores):
        scores[scores < np.sort(scores)[-request.top_k]] = -np.inf
    if request.top_p is not None and request.top_p < 1:
        scores = _nucleus(scores, request.top_p)
    seed = hashlib.blake2b(f"{digest(request)}:{len(new)}".encode(), digest_size=8).digest()
    noise = np.random.Generator(np.random.PCG64(int.from_bytes(seed, "big"))).gumbel(size=len(scores))
    return int((scores + noise).argmax())


def _nucleus(scores: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    order = np.argsort(-scores)
    weights = np.exp(scores[order] - scores[order[0]])
    before = np.cumsum(weights) - weights  # a token stays while those above it have not reached the share
    kept = order[before < share * weights.sum()]
    out = np.full_like(scores, -np.inf)
    out[kept] = scores[kept]
    return out


def _repeats(tokens: Sequence[int], size: int) -> set[int]:
    """Tokens that would complete an n-gram which has occurred already."""
    if size < 1 or len(tokens) < size:
        return set()
    tail = tuple(tokens[len(tokens) - size + 1 :])
    grams = (tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1))
    return {gram[-1] for gram in grams if gram[:-1] == tail}
