"""Nearest by embedding: the highest cosine, or inner product, by brute force."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kshot.core.errors import BadValue
from kshot.core.extras import require
from kshot.index.arrays import Array, Positions
from kshot.index.encoders import TextEncoder, checked_vectors, text_encoder, text_encoder_packages
from kshot.index.model_folders import MINILM
from kshot.index.vectors import nearest, nearest_by_product
from kshot.retrievers.base import ComparingRetriever, is_strict, whole_number

_PURPOSE = "choosing examples by embedding"


class EmbeddingRetriever(ComparingRetriever):
    """A retriever that compares vectors.

    They are given (``vectors``: a pair, or a dict of train and test), made by ``encoder``, a function from texts to an
    array, or by a model: ``minilm``, or the name or folder of a sentence-transformers model. compat compares by inner
    product, as OpenCompass does (faiss ``IndexFlatIP``): vectors keep the length that their model gives them.
    """

    def __init__(
        self,
        dataset: Any,
        *positional: Any,
        sentence_transformers_model_name: str | None = None,
        tokenizer_name: str | None = None,  # noqa: ARG002 - configs name one; the model has its own
        batch_size: int = 32,
        vectors: Any = None,
        encoder: Callable[[Sequence[str]], Any] | None = None,
        model: str | None = None,
        **options: Any,
    ) -> None:
        """Keep the options; texts are encoded when they are needed."""
        super().__init__(dataset, *positional, **options)
        self.model = model or sentence_transformers_model_name or _default_model(strict=self.strict)
        self._encoder, self._given = encoder, vectors
        self._batch_size = max(whole_number("batch_size", batch_size), 1)
        if vectors is None and encoder is None:
            require(_PURPOSE, *text_encoder_packages(self.model))

    @classmethod
    def packages(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the packages of kshot's extras that it needs with these options."""
        if options.get("vectors") is not None or options.get("encoder") is not None:
            return ()
        named = options.get("model") or options.get("sentence_transformers_model_name")
        return text_encoder_packages(named or _default_model(strict=is_strict(options)))

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records of this choice, as plain JSON values."""
        # a user's encoder may be any callable, and only functions have a name
        given = "given" if self._given is not None else getattr(self._encoder, "__name__", "own")
        named = self.model if self._given is None and self._encoder is None else given
        return {**super().facts, "vectors": named}

    @cached_property
    def vectors(self) -> tuple[Array, Array]:
        """Training and test vectors."""
        if self._given is None:
            encode = self._encoder or text_encoder(self.model, self._batch_size, _PURPOSE, unit=not self.strict)
            train = self._encoded(encode, self.train)
            test = train if self.train is self.test else self._encoded(encode, self.test)
        elif isinstance(self._given, Mapping):
            train, test = self._given["train"], self._given["test"]
        elif isinstance(self._given, Sequence) and len(self._given) == 2:  # noqa: PLR2004 - train and test
            train, test = self._given
        else:
            raise BadValue("vectors must be a pair of arrays: those of the train rows and those of the test rows")
        return checked_vectors(train, len(self.train), "train"), checked_vectors(test, len(self.test), "test")

    def _encoded(self, encode: TextEncoder, rows: Sequence[Any]) -> Any:
        return encode([self.compared(row) for row in rows]) if len(rows) else np.zeros((0, 1), dtype=np.float32)

    def neighbours(self, k: int) -> Iterator[Positions]:
        """Yield for each test row its ``k`` nearest training rows, or all that may be shown where there are fewer."""
        self.check_pool()
        search = nearest if self.strict else nearest_by_product
        return search(*self.vectors, min(k, len(self.train)), self.excluded)


def _default_model(*, strict: bool) -> str:
    return MINILM if strict else "all-mpnet-base-v2"


class TopkRetriever(EmbeddingRetriever):
    """The training rows whose embeddings have the highest cosine (compat: inner product) with the test row's."""

    def ranked(self) -> Iterator[Sequence[int]]:
        """Choose the nearest rows."""
        return (found.tolist() for found in self.neighbours(self.ice_num))
