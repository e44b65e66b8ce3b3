"""Nearest by words: BM25 over the training rows, for all test rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from kshot.core.errors import BadValue
from kshot.index.bm25 import Bm25BatchIndex, Bm25Formula, OkapiScores
from kshot.index.words import Words, check_nltk_words, nltk_words
from kshot.retrievers.base import ComparingRetriever, is_strict

Variant: TypeAlias = Literal["lucene", "okapi"]


class BM25Retriever(ComparingRetriever):
    """The training rows with the highest BM25 score for the words of the test row.

    ``tokenize`` turns a text into words. compat chooses as OpenCompass does: the words of NLTK, so that case and
    punctuation count, the scores of the package rank_bm25 (``okapi``), numpy's order of equal scores reversed, the
    nearest first, and all rows where there are fewer than wanted.
    """

    def __init__(
        self,
        dataset: Any,
        *positional: Any,
        tokenize: Callable[[str], Sequence[str]] | None = None,
        variant: Variant | None = None,
        k1: float = 1.5,
        b: float = 0.75,
        **options: Any,
    ) -> None:
        """Check the options; the index is built when it is needed."""
        super().__init__(dataset, *positional, **options)
        self.variant: Variant = variant or ("lucene" if self.strict else "okapi")
        if self.variant not in ("lucene", "okapi"):
            raise BadValue(f"variant is {variant!r}; it must be lucene or okapi")
        self._formula = Bm25Formula(self.variant, k1, b)
        self.k1, self.b = k1, b
        self._tokenize = tokenize or (Words() if self.strict else nltk_words)

    @classmethod
    def packages(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Refuse NLTK's words where their rules are missing; no package of an extra is needed."""
        if not is_strict(options) and options.get("tokenize") is None:
            check_nltk_words()
        return ()

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records of this choice, as plain JSON values."""
        return {**super().facts, "variant": self.variant, "k1": self.k1, "b": self.b}

    def ranked(self) -> Iterator[Sequence[int]]:
        """Index the training rows, then search for all test rows."""
        texts = (self._tokenize(self.compared(row)) for row in self.train)
        queries = (self._tokenize(self.compared(row)) for row in self.test)
        if not self.strict and self.variant == "okapi":
            return self._ranked_by_okapi(OkapiScores(texts, self.k1, self.b), queries)
        self.check_pool()
        return Bm25BatchIndex(texts, self._formula).search(list(queries), self.ice_num, self.excluded)

    def _ranked_by_okapi(self, scores: OkapiScores, queries: Iterator[Sequence[str]]) -> Iterator[Sequence[int]]:
        for row, query in enumerate(queries):
            hidden = self.excluded(row)
            ranked = np.argsort(scores.of(query))[::-1].tolist()  # numpy's own sort: it decides between equal scores
            yield [index for index in ranked if index not in hidden][: self.ice_num]
