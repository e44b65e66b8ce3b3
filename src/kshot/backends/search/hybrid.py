"""Several search engines as one: their scores are brought to one scale and added."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from kshot.backends.search.search_engine import Index, IndexSearchEngine
from kshot.core.corpus import Corpus
from kshot.core.errors import UsageError
from kshot.core.protocols import IndexStore
from kshot.index.ranking import Doubles, Found, Positions, best

FUSIONS = ("zscore", "rrf", "minmax")
MIN_CANDIDATES = 1000
"""Each part finds at least this many passages, as far as the corpus has them."""
_RRF_OFFSET = 60
_QUERIES_AT_ONCE = 128


class Hybrid(IndexSearchEngine):
    """The weighted sum of the scores of several search engines, over the passages that are among the best 1000 of any.

    ``zscore``: (score - mean) / standard deviation over these candidates. ``minmax``: (score - lowest) / (highest -
    lowest). Where all candidates have the same score, it becomes 0. A candidate that a part did not find has the part's
    floor, or its lowest score if it has no floor. ``rrf``: 1 / (60 + rank), and 0 for a candidate that was not found.

    Of a corpus of up to 1000 passages all are candidates. A passage that no part found is not found.
    """

    def __init__(
        self, parts: Sequence[IndexSearchEngine], *, fusion: str = "zscore", weights: Sequence[float] | None = None
    ) -> None:
        """Take the parts, the way their scores are made comparable, and the weight of each (default: the same)."""
        self.parts, self.fusion = tuple(parts), fusion
        self.weights = tuple(map(float, weights)) if weights is not None else (1.0,) * len(self.parts)
        if fusion not in FUSIONS:
            raise UsageError(f"there is no fusion {fusion!r}", hint=f"Write one of: {', '.join(FUSIONS)}.")
        if not self.parts:
            raise UsageError("a hybrid needs search engines to join", hint="Write hybrid:bm25+dense.")
        if len(self.weights) != len(self.parts):
            raise UsageError(f"{len(self.weights)} weights cannot be given to {len(self.parts)} search engines")
        if not all(math.isfinite(weight) and weight >= 0 for weight in self.weights) or not any(self.weights):
            raise UsageError(f"the weights are {self.weights}; they must be 0 or more, and not all 0")
        written = [
            part.name if weight == 1 else f"{part.name},weight={weight:g}"
            for part, weight in zip(self.parts, self.weights, strict=True)
        ]
        self.name = f"hybrid:{'' if fusion == 'zscore' else f'{fusion}:'}{'+'.join(written)}"
        joined = " + ".join(f"{w}*[{part.fingerprint}]" for part, w in zip(self.parts, self.weights, strict=True))
        self.fingerprint = f"hybrid {fusion} depth={MIN_CANDIDATES} {joined}"
        self.floor = 0.0 if fusion == "rrf" else None

    def open(self, corpus: Corpus, store: IndexStore) -> Index:
        """Open every part."""
        return _HybridIndex(self, [part.open(corpus, store) for part in self.parts], len(corpus))


class _HybridIndex:
    def __init__(self, hybrid: Hybrid, indexes: Sequence[Index], size: int) -> None:
        self._hybrid, self._indexes, self._size = hybrid, indexes, size

    def search(self, queries: Sequence[str], k: int, among: Sequence[int] | None) -> list[Found]:
        """Search with every part, a few queries at a time: each answer holds a thousand passages."""
        starts = range(0, len(queries), _QUERIES_AT_ONCE)
        return [found for at in starts for found in self._batch(queries[at : at + _QUERIES_AT_ONCE], k, among)]

    def _batch(self, queries: Sequence[str], k: int, among: Sequence[int] | None) -> Iterator[Found]:
        searched = self._size if among is None else len(among)
        depth = min(max(k, MIN_CANDIDATES), searched)
        everything = None
        if searched <= MIN_CANDIDATES:
            everything = np.arange(searched) if among is None else np.asarray(among, dtype=np.intp)
        answers = [index.search(queries, depth, among) for index in self._indexes]
        for lists in zip(*answers, strict=True):
            yield self._fused(lists, k, everything)

    def _fused(self, lists: Sequence[Found], k: int, everything: Positions | None) -> Found:
        hybrid = self._hybrid
        positions = [np.asarray(found.positions, dtype=np.intp) for found in lists]
        given = np.unique(np.concatenate(positions))
        candidates = given if everything is None else everything
        total = np.zeros(len(candidates))
        for part, weight, where, found in zip(hybrid.parts, hybrid.weights, positions, lists, strict=True):
            at = np.searchsorted(candidates, where)
            total += weight * _scaled(hybrid.fusion, len(candidates), at, found.scores, part.floor)
        kept = np.searchsorted(candidates, given)
        return best(total[kept], k, given)


def _scaled(fusion: str, count: int, at: Positions, scores: Sequence[float], floor: float | None) -> Doubles:
    """Return the scores of one part for all candidates, on the common scale; ``at`` are those that it found."""
    if fusion == "rrf":
        spread = np.zeros(count)
        spread[at] = 1 / (_RRF_OFFSET + np.arange(1, len(at) + 1))
        return spread
    lowest = min(scores, default=0.0) if floor is None else floor
    spread = np.full(count, float(lowest))
    spread[at] = scores
    if not count or spread.min() == spread.max():
        return np.zeros(count)
    if fusion == "minmax":
        return np.asarray((spread - spread.min()) / (spread.max() - spread.min()))
    deviation = spread.std()
    return np.asarray((spread - spread.mean()) / deviation) if deviation > 0 else np.zeros(count)
