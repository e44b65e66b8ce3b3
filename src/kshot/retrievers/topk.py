"""Nearest by embedding: cosine, by brute force in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kshot.core.errors import BadValue
from kshot.retrievers.base import Comparing, whole
from kshot.retrievers.encoders import MINILM, Encoder, Vectors, checked, encoder_of
from kshot.retrievers.ranking import Doubles, Floats, Ints, best, blocks

PAIRS = 8192


def lengths(vectors: Vectors) -> Doubles:
    """Length of each vector; a vector of nothing counts as 1, so that its cosine with anything is 0."""
    found = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    return np.where(found > 0, found, 1.0)


def unit(vectors: Vectors) -> Floats:
    """The vectors at length 1, in float32."""
    scaled: Floats = (vectors / lengths(vectors)[:, None].astype(vectors.dtype)).astype(np.float32)
    return scaled


def nearest(
    train: Vectors, test: Vectors, k: int, hidden: Callable[[int], Sequence[int]], *, pool: Floats | None = None
) -> Iterator[Ints]:
    """For each test vector the ``k`` training vectors of highest cosine, best first, ties by number.

    The table of cosines is made a block of test rows at a time: memory does not grow with their number.
    """
    if train.shape[1] != test.shape[1] and len(train) and len(test):
        raise BadValue(f"train vectors have {train.shape[1]} numbers, test vectors {test.shape[1]}")
    columns = unit(train) if pool is None else pool
    train_lengths, test_lengths = lengths(train), lengths(test)
    slack = 2.4e-7 * (test.shape[1] + 8)  # twice the worst rounding error of a float32 dot product of unit vectors

    def exact(start: int, rows: Ints, found: Ints) -> Doubles:
        scores = np.empty(len(rows))
        for at in range(0, len(rows), PAIRS):
            some, those = rows[at : at + PAIRS] + start, found[at : at + PAIRS]
            products = test[some].astype(np.float64) * train[those]
            scores[at : at + PAIRS] = products.sum(axis=1) / (test_lengths[some] * train_lengths[those])
        return scores

    for cut in blocks(len(test), len(train)):
        scores: Floats = unit(test[cut]) @ columns.T
        yield from best(
            scores,
            k,
            np.full(len(scores), slack, dtype=np.float32),
            lambda rows, found, start=cut.start: exact(start, rows, found),  # type: ignore[misc]
            [hidden(row) for row in range(cut.start, cut.stop)],
        )


class Embedding(Comparing):
    """A retriever that compares vectors.

    They are given (``vectors``: a pair, or a dict of train and test), made by ``encoder``, a function from texts to an
    array, or by a model: ``minilm``, or the name or folder of a sentence-transformers model.
    """

    def __init__(
        self,
        dataset: Any,
        *places: Any,
        sentence_transformers_model_name: str | None = None,
        tokenizer_name: str | None = None,  # noqa: ARG002 - configs name one; the model has its own
        batch_size: int = 32,
        vectors: Any = None,
        encoder: Encoder | None = None,
        model: str | None = None,
        **options: Any,
    ) -> None:
        """Keep the options; texts are encoded when they are needed."""
        super().__init__(dataset, *places, **options)
        default = MINILM if self.strict else "all-mpnet-base-v2"
        self.model = model or sentence_transformers_model_name or default
        self._encoder, self._given, self._batch_size = encoder, vectors, max(whole("batch_size", batch_size), 1)

    @property
    def facts(self) -> dict[str, Any]:
        """What a run should record of this choice, as plain JSON values."""
        given = "given" if self._given is not None else getattr(self._encoder, "__name__", "own")
        named = self.model if self._given is None and self._encoder is None else given
        return {**super().facts, "vectors": named}

    @cached_property
    def vectors(self) -> tuple[Vectors, Vectors]:
        """Training and test vectors."""
        if self._given is None:
            encode = self._encoder or encoder_of(self.model, self._batch_size)
            train = self._encoded(encode, self.train)
            test = train if self.train is self.test else self._encoded(encode, self.test)
        elif isinstance(self._given, Mapping):
            train, test = self._given["train"], self._given["test"]
        elif isinstance(self._given, Sequence) and len(self._given) == 2:  # noqa: PLR2004 - train and test
            train, test = self._given
        else:
            raise BadValue("vectors must be a pair of arrays: those of the train rows and those of the test rows")
        return checked(train, len(self.train), "train"), checked(test, len(self.test), "test")

    def _encoded(self, encode: Encoder, rows: Sequence[Any]) -> Any:
        return encode([self.compared(row) for row in rows]) if len(rows) else np.zeros((0, 1), dtype=np.float32)

    def neighbours(self, k: int) -> Iterator[Ints]:
        """For each test row its ``k`` nearest training rows, or all that may be shown where there are fewer."""
        self.check_pool()
        return nearest(*self.vectors, min(k, len(self.train)), self.excluded)


class TopkRetriever(Embedding):
    """The training rows whose embeddings have the highest cosine with the test row's."""

    def ranked(self) -> Iterator[Sequence[int]]:
        """The nearest ones."""
        return (found.tolist() for found in self.neighbours(self.ice_num))
