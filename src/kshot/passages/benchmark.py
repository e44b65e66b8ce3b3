"""A passage benchmark as a value: questions, and the documents or passages that they search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kshot.core.corpus import Corpus, Passage
from kshot.core.protocols import TextChunker
from kshot.core.records import Graded, Sample
from kshot.passages.chunkers import passages_of
from kshot.passages.documents import Document


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Questions with evidence (over documents that a chunker cuts) or with graded passages (used as they are).

    ``within`` is the field that a passage must share with a sample to be searched; None: all passages are searched.
    ``topics`` are the ids of all questions of the file, also of those left out: recorded runs keep that order.
    """

    name: str
    samples: Sequence[Sample]
    documents: Sequence[Document] = ()
    passages: Sequence[Passage] = ()
    within: str | None = None
    chunker: str | None = None
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    topics: tuple[str, ...] = ()

    @property
    def graded(self) -> bool:
        """Whether the gold is graded passages, not evidence."""
        return bool(self.samples) and isinstance(self.samples[0].target, Graded)

    def corpus(self, chunker: TextChunker | None) -> Corpus:
        """Return the documents cut by the chunker; without a chunker, the passages as they are."""
        if chunker is None:
            return Corpus(self.passages, topics=self.topics)
        passages = passages_of(self.documents, chunker, lambda document: {"chapter": document.name})
        return Corpus(passages, topics=self.topics)

    def texts(self) -> dict[str, str]:
        """Return the whole text of each chapter: it shows whether a quote straddles a border or is absent."""
        return {document.name: document.text for document in self.documents}
