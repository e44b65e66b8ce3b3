"""Several engines as one: their scores brought to one scale and added."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from kshot.backends.search.search_engine import Found, Index, IndexSearchEngine, best
from kshot.core.corpus import Corpus
from kshot.core.errors import UsageError
from kshot.core.protocols import IndexStore

FUSIONS = ("zscore", "rrf", "minmax")
DEPTH = 1000
"""How many passages each part is asked for, at least."""
RRF_K = 60
BATCH = 128


class Hybrid(IndexSearchEngine):
    """The weighted sum of what several engines say, over the passages that any of them gives among its best 1000.

    ``zscore``: (score - mean) / standard deviation over these candidates. ``minmax``: (score - lowest) / (highest -
    lowest). Where all candidates have one score, they have 0. A candidate that a part did not give has the part's
    floor, or its lowest score if it has no floor. ``rrf``: 1 / (60 + rank), and 0 for one that was not given.

    Of up to 1000 passages all are candidates. Only what some part found is found.
    """

    def __init__(
        self, parts: Sequence[IndexSearchEngine], *, fusion: str = "zscore", weights: Sequence[float] | None = None
    ) -> None:
        """Take the parts, the way their scores are made comparable, and what each counts (default: the same)."""
        self.parts, self.fusion = tuple(parts), fusion
        self.weights = tuple(map(float, weights)) if weights is not None else (1.0,) * len(self.parts)
        if fusion not in FUSIONS:
            raise UsageError(f"there is no fusion {fusion!r}", hint=f"Write one of: {', '.join(FUSIONS)}.")
        if not self.parts:
            raise UsageError("a hybrid needs engines to join", hint="Write hybrid:bm25+dense.")
        if len(self.weights) != len(self.parts):
            raise UsageError(f"{len(self.weights)} weights cannot be given to {len(self.parts)} engines")
        if not all(math.isfinite(weight) and weight >= 0 for weight in self.weights) or not any(self.weights):
            raise UsageError(f"the weights are {self.weights}; they must be 0 or more, and not all 0")
        shown = [
            part.name if weight == 1 else f"{part.name},weight={weight:g}"
            for part, weight in zip(self.parts, self.weights, strict=True)
        ]
        self.name = f"hybrid:{'' if fusion == 'zscore' else f'{fusion}:'}{'+'.join(shown)}"
        joined = " + ".join(f"{w}*[{part.fingerprint}]" for part, w in zip(self.parts, self.weights, strict=True))
        self.fingerprint = f"hybrid {fusion} depth={DEPTH} {joined}"
        self.floor = 0.0 if fusion == "rrf" else None

    def open(self, corpus: Corpus, store: IndexStore) -> Index:
        """Open every part."""
        return _HybridIndex(self, [part.open(corpus, store) for part in self.parts], len(corpus))


class _HybridIndex:
    def __init__(self, engine: Hybrid, indexes: Sequence[Index], size: int) -> None:
        self._engine, self._indexes, self._size = engine, indexes, size

    def search(self, queries: Sequence[str], k: int, among: Sequence[int] | None) -> list[Found]:
        """Ask every part, some queries at a time: each answer holds a thousand passages."""
        starts = range(0, len(queries), BATCH)
        return [found for at in starts for found in self._batch(queries[at : at + BATCH], k, among)]

    def _batch(self, queries: Sequence[str], k: int, among: Sequence[int] | None) -> Iterator[Found]:
        import numpy as np

        room = self._size if among is None else len(among)
        depth = min(max(k, DEPTH), room)
        everything = None
        if room <= DEPTH:
            everything = np.arange(room) if among is None else np.asarray(among, dtype=np.intp)
        answers = [index.search(queries, depth, among) for index in self._indexes]
        for lists in zip(*answers, strict=True):
            yield self._fused(lists, k, everything)

    def _fused(self, lists: Sequence[Found], k: int, everything: Any) -> Found:
        import numpy as np

        positions = [np.asarray(found.positions, dtype=np.intp) for found in lists]
        given = np.unique(np.concatenate(positions))
        candidates = given if everything is None else everything
        total = np.zeros(len(candidates))
        for part, weight, where, found in zip(self._engine.parts, self._engine.weights, positions, lists, strict=True):
            at = np.searchsorted(candidates, where)
            total += weight * _scaled(self._engine.fusion, len(candidates), at, found.scores, part.floor)
        kept = np.searchsorted(candidates, given)
        return best(total[kept], k, given)


def _scaled(fusion: str, many: int, at: Any, scores: Sequence[float], floor: float | None) -> Any:
    """What one part says of all candidates, on the common scale."""
    import numpy as np

    if fusion == "rrf":
        spread = np.zeros(many)
        spread[at] = 1 / (RRF_K + np.arange(1, len(at) + 1))
        return spread
    lowest = min(scores, default=0.0) if floor is None else floor
    spread = np.full(many, float(lowest))
    spread[at] = scores
    if not many or spread.min() == spread.max():
        return np.zeros(many)
    if fusion == "minmax":
        return (spread - spread.min()) / (spread.max() - spread.min())
    deviation = spread.std()
    return (spread - spread.mean()) / deviation if deviation > 0 else np.zeros(many)
