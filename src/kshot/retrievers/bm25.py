"""Nearest by words: BM25 over the training rows, for all test rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from kshot.core.errors import BadValue
from kshot.index.bm25 import Bm25Formula
from kshot.index.bm25_batch import Bm25BatchIndex
from kshot.index.words import Words, cased_tokens
from kshot.retrievers.base import ComparingRetriever

Variant: TypeAlias = Literal["lucene", "okapi"]


class BM25Retriever(ComparingRetriever):
    """The training rows with the highest BM25 score for the words of the test row.

    ``tokenize`` turns a text into words. compat computes scores as the originals' package does (``okapi``, case and
    punctuation count) and puts the nearest first.
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
        self._tokenize = tokenize or (Words() if self.strict else cased_tokens)

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records of this choice, as plain JSON values."""
        return {**super().facts, "variant": self.variant, "k1": self.k1, "b": self.b}

    def ranked(self) -> Iterator[Sequence[int]]:
        """Index the training rows, then search for all test rows."""
        self.check_pool()
        index = Bm25BatchIndex((self._tokenize(self.compared(row)) for row in self.train), self._formula)
        queries = [self._tokenize(self.compared(row)) for row in self.test]
        return index.search(queries, self.ice_num, self.excluded)
