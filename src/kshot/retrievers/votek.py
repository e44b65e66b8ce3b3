"""Examples that represent many rows: votes of nearest neighbours, the same choice for every test row."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kshot.core.errors import BadValue
from kshot.index.arrays import Array, Positions
from kshot.index.vectors import nearest
from kshot.retrievers.base import whole_number
from kshot.retrievers.topk import EmbeddingRetriever


class VotekRetriever(EmbeddingRetriever):
    """Training rows that are near neighbours of many others, spread out (Su, 2022).

    Every training row votes for its ``votek_k`` nearest. The vote of a row is worth ``discount ** -c`` once ``c`` of
    those it votes for are chosen, and nothing once it is chosen itself; the row with the most votes is chosen next, the
    lower number on a tie. A test row that is itself chosen (strict) is shown the next one instead.

    compat elects as OpenCompass does (``elect_unlike``), which never discounts a vote. Where too few rows win, it draws
    the others, by ``seed``; OpenCompass draws them from the generator of the process, differently in each run.
    """

    def __init__(
        self, dataset: Any, *positional: Any, votek_k: int = 3, discount: float = 10.0, **options: Any
    ) -> None:
        """Take the options of ``TopkRetriever``, the number of votes of each row, and the discount."""
        super().__init__(dataset, *positional, **options)
        self.votek_k, self.discount = whole_number("votek_k", votek_k), discount
        if not discount >= 1:
            raise BadValue(f"discount is {discount}; it must be 1 or more")

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records of this choice, as plain JSON values."""
        return {**super().facts, "votek_k": self.votek_k, "discount": self.discount}

    def ranked(self) -> Iterator[Sequence[int]]:
        """Give the chosen rows, without the row itself."""
        self.check_pool()
        hidden = [set(self.excluded(row)) for row in range(len(self.test))]
        wanted = self.ice_num + max((len(each) for each in hidden), default=0)
        chosen = self._elected(min(wanted, len(self.train)))
        for each in hidden:
            yield [index for index in chosen if index not in each][: self.ice_num]

    def _elected(self, count: int) -> list[int]:
        train = self.vectors[0]
        if not self.strict:
            won = elect_unlike(votes_by_cosine(train, self.votek_k), count)
            rest = [row for row in range(len(train)) if row not in won]
            draw = random.Random(self.seed)  # noqa: S311 - a reproducible draw, not a secret
            return won + draw.sample(rest, count - len(won))
        known = min(self.votek_k, max(len(train) - 1, 0))
        edges = list(nearest(train, train, known, lambda row: (row,)))
        return elect(np.asarray(edges, dtype=np.intp).reshape(len(train), known), count, self.discount)


def elect(edges: Positions, count: int, discount: float) -> list[int]:
    """Return the rows that win, one after the other, when row v votes for ``edges[v]``."""
    size = len(edges)
    won = np.zeros(size, dtype=bool)
    chosen: list[int] = []
    for _ in range(count):
        worth = np.where(won, 0.0, discount ** -won[edges].sum(axis=1).astype(np.float64))
        votes = np.bincount(edges.ravel(), np.repeat(worth, edges.shape[1]), minlength=size).astype(np.float64)
        votes[won] = -1.0
        chosen.append(int(np.argmax(votes)))
        won[chosen[-1]] = True
    return chosen


# ---- as OpenCompass elects ----


def votes_by_cosine(vectors: Array, known: int) -> dict[int, set[int]]:
    """Return the voters of each row that has any, in the order of first votes.

    A row votes for the ``known`` before the last in ascending order of cosine: the last is mostly the row itself, which
    gets no vote of its own. Cosines have the precision of the vectors, and numpy's own sort decides between equal ones.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    lengths[lengths < 10 * np.finfo(vectors.dtype).eps] = 1  # as scikit-learn normalises
    unit = vectors / lengths[:, None]
    voters: dict[int, set[int]] = {}
    for row in range(len(unit)):
        ascending = np.argsort((unit @ unit[row : row + 1].T)[:, 0])
        for other in ascending[-known - 1 : -1].tolist():
            if other != row:
                voters.setdefault(other, set()).add(row)
    return voters


def elect_unlike(voters: Mapping[int, set[int]], count: int) -> list[int]:
    """Return up to ``count`` rows by number of votes, without those whose voters all voted for one row before it."""
    order = sorted(voters, key=lambda row: len(voters[row]), reverse=True)
    chosen: list[int] = []
    for place, row in enumerate(order):
        if len(chosen) == count:
            break
        if not any(voters[row] <= voters[before] for before in order[:place]):
            chosen.append(row)
    return chosen
