"""A passage benchmark as a value: questions, and the documents or passages they are put to."""

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
    """Questions with evidence (over documents, to be chunked) or with graded passages (as they are).

    ``within`` is the field of a sample that a passage must share to be searched; None: everything is searched.
    ``topics`` are the ids of all questions of the file, those left out too: recorded runs are kept in that order.
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
        """Whether relevance is given by passage, not by evidence."""
        return bool(self.samples) and isinstance(self.samples[0].target, Graded)

    def corpus(self, chunker: TextChunker | None) -> Corpus:
        """Cut the documents (or take the passages as they are)."""
        if chunker is None:
            return Corpus(self.passages, topics=self.topics)
        return Corpus(passages_of(self.documents, chunker, _fields), topics=self.topics)

    def texts(self) -> dict[str, str]:
        """Whole text by chapter, for telling a quote that straddles a border from one that is nowhere."""
        return {document.name: document.text for document in self.documents}


def _fields(document: Document) -> dict[str, str]:
    return {"chapter": document.name}
