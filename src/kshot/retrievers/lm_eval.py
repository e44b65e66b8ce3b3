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
    1)`` and shows the first ``k`` that differ from it; if copies of it leave fewer, it draws ``k`` again among the rows
    that differ from it. The seed is an option of this retriever alone (1234, as in lm-eval): ``--seed`` does not change
    it.
    """

    takes_run_seed = False

    def __init__(self, dataset: Any, *positional: Any, seed: int | None = LM_EVAL_SEED, **options: Any) -> None:
        """Take the seed. Which rows are hidden is lm-eval's own rule: ``exclude_self`` is refused."""
        if options.get("exclude_self") is not None:
            raise BadValue(
                "exclude_self has no effect: rows are hidden from themselves by lm-eval's own rule",
                where=type(self).__name__,
                hint="Leave it out.",
            )
        super().__init__(dataset, *positional, seed=seed, **options)

    def ranked(self) -> Iterator[Sequence[int]]:
        """Draw for each row, in order."""
        stream, pool = random.Random(self.seed), range(len(self.train))  # noqa: S311 - a reproducible draw, no secret
        same = self.pool.same_split
        wanted = self.ice_num + same if self.ice_num else 0
        self._check_size(
            wanted, len(pool), "drawn (one more than shown, in case the row itself is among them)" if same else "drawn"
        )
        for row in self.test:
            drawn: Sequence[int] = stream.sample(pool, wanted)
            if same:
                drawn = self._others(drawn, row)[: self.ice_num]
                if len(drawn) < self.ice_num:
                    others = self._others(pool, row)
                    self._check_size(self.ice_num, len(others), "drawn among those that differ from it")
                    drawn = stream.sample(others, self.ice_num)
            yield drawn

    def _others(self, candidates: Sequence[int], row: Any) -> list[int]:
        """Return the candidates that are not equal to the row."""
        return [index for index in candidates if not equal(self.train[index], row)]

    def _check_size(self, wanted: int, size: int, how: str) -> None:
        if wanted > size:
            raise BadValue(
                f"{wanted} examples for each row are {how}; there are {size} rows",
                where=type(self).__name__,
                hint="Ask for fewer examples.",
            )


class FirstNRetriever(LMEvalRetriever):
    """The first ``ice_num`` rows of the pool, the same for every row: lm-eval's ``first_n``.

    Where examples and test rows are of the same split, a row is shown the first ones that differ from it.
    """

    def ranked(self) -> Iterator[Sequence[int]]:
        """Give the first rows."""
        same = self.pool.same_split
        for row in self.test:
            pool = self._others(range(len(self.train)), row) if same else range(len(self.train))
            self._check_size(self.ice_num, len(pool), "shown")
            yield pool[: self.ice_num]
