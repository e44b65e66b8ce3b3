"""Examples near the test row and unlike each other: maximal marginal relevance, determinantal point process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kshot.core.errors import BadValue
from kshot.index.arrays import Doubles
from kshot.index.ranking import DIGITS
from kshot.index.vectors import vector_lengths
from kshot.retrievers.base import whole_number
from kshot.retrievers.topk import EmbeddingRetriever

_MIN_CANDIDATES, _CANDIDATES_PER_EXAMPLE = 100, 10


class DiverseRetriever(EmbeddingRetriever):
    """A choice among the ``candidate_num`` nearest training rows, nearest first."""

    def __init__(self, dataset: Any, *positional: Any, candidate_num: int | None = None, **options: Any) -> None:
        """Take the options of ``TopkRetriever`` and how many candidates there are (100, or 10 for each example)."""
        super().__init__(dataset, *positional, **options)
        default = max(_MIN_CANDIDATES, _CANDIDATES_PER_EXAMPLE * self.ice_num)
        wanted = default if candidate_num is None else whole_number("candidate_num", candidate_num)
        self.candidate_num = max(wanted, self.ice_num)

    def ranked(self) -> Iterator[Sequence[int]]:
        """Choose among each row's candidates."""
        train, test = self.vectors
        train_lengths, test_lengths = vector_lengths(train), vector_lengths(test)
        for row, near in enumerate(self.neighbours(self.candidate_num)):
            candidates = train[near].astype(np.float64) / train_lengths[near][:, None]
            relevance = candidates @ (test[row].astype(np.float64) / test_lengths[row])
            chosen = sorted(self.choose(relevance, candidates @ candidates.T))  # candidates are sorted, nearest first
            if not self.strict:  # by inner product: as OpenCompass does, put the highest cosine first
                chosen.sort(key=lambda at: -relevance[at])
            yield near[np.asarray(chosen, dtype=np.intp)].tolist()

    def choose(self, relevance: Doubles, alike: Doubles) -> Sequence[int]:
        """Choose candidates, given their cosines with the test row and with each other."""
        raise NotImplementedError


class MMRRetriever(DiverseRetriever):
    """The candidate with the highest ``(1 - λ) · near - λ · like``, one after the other.

    ``near`` is its cosine with the test row, ``like`` the highest cosine with one already chosen, λ the ``diversity``:
    0 gives the nearest, 1 uses nearness for the first one only.
    """

    def __init__(self, dataset: Any, *positional: Any, diversity: float = 0.5, **options: Any) -> None:
        """Take the options of ``TopkRetriever``, the number of candidates and the weight of diversity."""
        super().__init__(dataset, *positional, **options)
        if not 0 <= diversity <= 1:
            raise BadValue(f"diversity is {diversity}; it must be from 0 to 1")
        self.diversity = diversity

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records of this choice, as plain JSON values."""
        return {**super().facts, "candidate_num": self.candidate_num, "diversity": self.diversity}

    def choose(self, relevance: Doubles, alike: Doubles) -> Sequence[int]:
        """Choose the nearest, then by gain."""
        if not self.ice_num:
            return []
        chosen = [int(np.argmax(np.round(relevance, DIGITS)))]
        like = alike[chosen[0]].copy()
        while len(chosen) < self.ice_num:
            gain = np.round((1 - self.diversity) * relevance - self.diversity * like, DIGITS)
            gain[chosen] = -np.inf
            chosen.append(int(np.argmax(gain)))
            np.maximum(like, alike[chosen[-1]], out=like)
        return chosen


class DPPRetriever(DiverseRetriever):
    """The candidates with the greatest determinant, found greedily.

    The kernel is ``q_i · s_ij · q_j`` with likeness ``s = (1 + cosine) / 2`` and quality
    ``q = exp((r - max r) / (2 · scale_factor))`` of the relevance ``r = (1 + cosine with the test row) / 2``: a small
    ``scale_factor`` prefers near ones, a large one different ones. OpenCompass has the same kernel, but fails before it
    chooses anything.
    """

    def __init__(self, dataset: Any, *positional: Any, scale_factor: float = 0.1, **options: Any) -> None:
        """Take the options of ``TopkRetriever``, the number of candidates and the scale of relevance."""
        super().__init__(dataset, *positional, **options)
        if not scale_factor > 0:
            raise BadValue(f"scale_factor is {scale_factor}; it must be above 0")
        self.scale_factor = scale_factor

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records of this choice, as plain JSON values."""
        return {**super().facts, "candidate_num": self.candidate_num, "scale_factor": self.scale_factor}

    def choose(self, relevance: Doubles, alike: Doubles) -> Sequence[int]:
        """Build the kernel and choose from it greedily."""
        near = (relevance - relevance.max(initial=-1.0)) / 2
        quality = np.exp(near / (2 * self.scale_factor))
        return greedy_map(quality[:, None] * (1 + alike) / 2 * quality[None, :], self.ice_num)


def greedy_map(kernel: Doubles, k: int) -> list[int]:
    """Choose one item after the other, each time the one that multiplies the determinant most (Chen et al., 2018).

    ``gain`` holds that factor for every item: the squared diagonal of a Cholesky factor that grows by one row each
    step. When no item multiplies the determinant any more, the first items left are chosen.
    """
    size = len(kernel)
    rows = np.zeros((k, size))
    gain = np.diag(kernel).copy()
    free = np.ones(size, dtype=bool)
    chosen: list[int] = []
    for step in range(min(k, size)):
        open_gain = np.where(free, np.round(gain, DIGITS + 2), -np.inf)
        item = int(np.argmax(open_gain))
        if open_gain[item] <= 0:
            chosen += np.flatnonzero(free)[: min(k, size) - step].tolist()
            break
        chosen.append(item)
        free[item] = False
        rows[step] = (kernel[item] - rows[:step, item] @ rows[:step]) / np.sqrt(gain[item])
        gain -= rows[step] ** 2
    return chosen
