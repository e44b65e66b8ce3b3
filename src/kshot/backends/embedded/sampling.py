"""Choosing the next token of a text, from its request alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kshot.core.records import Generate
from kshot.core.serialization import sampling_digest


def choose_token(logits: NDArray[np.float32], request: Generate, prompt: Sequence[int], new: Sequence[int]) -> int:
    """Return the most likely token at temperature 0, else a sample by Gumbel-max with noise seeded by the request."""
    scores = logits.astype(np.float64)
    if request.repetition_penalty not in {None, 1.0}:
        used = np.unique([*prompt, *new])
        penalty = float(request.repetition_penalty or 1.0)
        scores[used] = np.where(scores[used] > 0, scores[used] / penalty, scores[used] * penalty)
    for token in _repeated_ngram_ends([*prompt, *new], request.no_repeat_ngram_size or 0):
        scores[token] = -np.inf
    if request.temperature <= 0:
        return int(scores.argmax())
    scores /= request.temperature
    if request.top_k is not None and request.top_k < len(scores):
        scores[scores < np.sort(scores)[-request.top_k]] = -np.inf
    if request.top_p is not None and request.top_p < 1:
        scores = _keep_top_p(scores, request.top_p)
    seed = hashlib.blake2b(f"{sampling_digest(request)}:{len(new)}".encode(), digest_size=8).digest()
    noise = np.random.Generator(np.random.PCG64(int.from_bytes(seed, "big"))).gumbel(size=len(scores))
    return int((scores + noise).argmax())


def _keep_top_p(scores: NDArray[np.float64], top_p: float) -> NDArray[np.float64]:
    order = np.argsort(-scores)
    weights = np.exp(scores[order] - scores[order[0]])
    before = np.cumsum(weights) - weights  # a token stays while those above it have not reached the share
    kept = order[before < top_p * weights.sum()]
    out = np.full_like(scores, -np.inf)
    out[kept] = scores[kept]
    return out


def _repeated_ngram_ends(tokens: Sequence[int], size: int) -> set[int]:
    """Return the tokens that would complete an n-gram that has occurred already."""
    if size < 1 or len(tokens) < size:
        return set()
    tail = tuple(tokens[len(tokens) - size + 1 :])
    ngrams = (tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1))
    return {ngram[-1] for ngram in ngrams if ngram[:-1] == tail}
