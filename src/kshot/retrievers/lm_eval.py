"""Examples as lm-evaluation-harness chooses them: drawn anew for every row by one stream, or the first of the pool."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from kshot.core.errors import BadValue
from kshot.retrievers.base import Retriever
from kshot.retrievers.pool import equal

LM_EVAL_SEED = 1234
"""The seed of lm-eval's own draws."""


class LMEvalRetriever(Retriever):
    """For each test row a new draw from one ``random.Random(seed)``, in the order of the rows: lm-eval's ``default``.

    A row takes ``sample(pool, k)``. Where examples and test rows are of the same split, it takes ``sample(pool, k +
    1)`` and shows the first ``k`` that differ from it. The seed is an option of this retriever alone (1234, as in
    lm-eval): ``--seed`` does not change it.
    """

    takes_run_seed = False

    def __init__(self, dataset: Any, *positional: Any, seed: int | None = LM_EVAL_SEED, **options: Any) -> None:
        """Take the seed. Which rows are hidden is lm-eval's own rule: ``exclude_self`` has no effect."""
        super().__init__(dataset, *positional, seed=seed, **options)

    def ranked(self) -> Iterator[Sequence[int]]:
        """Draw for each row, in order."""
        stream, pool = random.Random(self.seed), range(len(self.train))  # noqa: S311 - a reproducible draw, no secret
        same = self.pool.same_split
        wanted = self.ice_num + same if self.ice_num else 0
        self._check_size(
            wanted, "drawn (one more than shown, in case the row itself is among them)" if same else "drawn"
        )
        for row in self.test:
            drawn = stream.sample(pool, wanted)
            yield self._others(drawn, row) if same else drawn

    def _check_size(self, wanted: int, how: str) -> None:
        if wanted > len(self.train):
            raise BadValue(
                f"{wanted} examples for each row are {how}; there are {len(self.train)} rows",
                where=type(self).__name__,
                hint="Ask for fewer examples.",
            )

    def _others(self, candidates: Sequence[int], row: Any) -> list[int]:
        """Return the first candidates that are not equal to the row."""
        found: list[int] = []
        for index in candidates:
            if len(found) == self.ice_num:
                break
            if not equal(self.train[index], row):
                found.append(index)
        return found


class FirstNRetriever(LMEvalRetriever):
    """The first ``ice_num`` rows of the pool, the same for every row: lm-eval's ``first_n``.

    Where examples and test rows are of the same split, a row is shown the first ones that differ from it.
    """

    def ranked(self) -> Iterator[Sequence[int]]:
        """Give the first rows."""
        self._check_size(self.ice_num, "shown")
        first, same = range(self.ice_num), self.pool.same_split
        return (self._others(range(len(self.train)), row) if same else first for row in self.test)
