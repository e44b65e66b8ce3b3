"""Passages, and the corpus that a search engine searches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from kshot.core.errors import DataError, UsageError
from kshot.core.visible import one_line

Where = tuple[tuple[str, str], ...]

_BLOCK_PASSAGES = 512


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text that a search can find. Filters compare ``fields``; ``tokens`` is its length (0: not counted)."""

    id: str
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)
    tokens: int = 0


class Chunk(NamedTuple):
    """A piece of a text, without white space at both ends.

    ``start`` is its position in the text (``None``: the text does not contain it verbatim), ``tokens`` its length
    by the chunker's tokenizer, ``section`` the headings above it.
    """

    text: str
    start: int | None
    tokens: int
    section: tuple[str, ...] = ()


class Corpus:
    """Passages in a fixed order, by position and by id.

    ``topics`` are the ids of the questions, in the order of their file: recorded runs are found by them.
    """

    def __init__(self, passages: Iterable[Passage], *, topics: Iterable[str] = ()) -> None:
        """Take the passages; two passages with the same id are an error."""
        self.passages = tuple(passages)
        self.topics = tuple(topics)
        self._positions = {passage.id: position for position, passage in enumerate(self.passages)}
        if len(self._positions) < len(self.passages):
            twice = next(p.id for at, p in enumerate(self.passages) if self._positions[p.id] != at)
            raise DataError(f"two passages have the id {twice!r}", hint="Make the ids unique.")
        self._among: dict[Where, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self.passages)

    def __iter__(self) -> Iterator[Passage]:
        return iter(self.passages)

    def __contains__(self, passage_id: object) -> bool:
        return passage_id in self._positions

    def __getitem__(self, passage_id: str) -> Passage:
        return self.passages[self._positions[passage_id]]

    def position(self, passage_id: str) -> int:
        """Return the position of a passage."""
        return self._positions[passage_id]

    def among(self, where: Where) -> tuple[int, ...] | None:
        """Return the positions of passages whose fields have these values, ascending; ``None`` without conditions."""
        if not where:
            return None
        if where not in self._among:
            for name, _ in where:
                if self.passages and not any(name in passage.fields for passage in self.passages):
                    raise UsageError(f"no passage has a field {name!r} to filter by")
            self._among[where] = tuple(
                position
                for position, passage in enumerate(self.passages)
                if all(passage.fields.get(name) == value for name, value in where)
            )
        return self._among[where]

    def searched(self, where: Where) -> Sequence[Passage]:
        """Return the passages that ``among`` finds; all of them without conditions."""
        among = self.among(where)
        return self.passages if among is None else [self.passages[position] for position in among]

    @cached_property
    def digest(self) -> str:
        """The hash of the content: ids, texts and fields, in order."""
        state = hashlib.blake2b(digest_size=16)
        for first in range(0, len(self.passages), _BLOCK_PASSAGES):  # a hash of large blocks is faster
            block = "".join(map(_written, self.passages[first : first + _BLOCK_PASSAGES]))
            state.update(block.encode("utf-8", "surrogatepass"))
        return state.hexdigest()


def corpus_fingerprint(fingerprint: str, corpus: Corpus) -> str:
    """Return the fingerprint of a search engine together with the corpus that it searches."""
    return f"{fingerprint} over {corpus.digest}"


def _written(passage: Passage) -> str:
    """Write a passage with the length of each part, so that two different passages are never written alike."""
    parts = [part for pair in sorted(passage.fields.items()) for part in pair]
    lengths = " ".join(map(str, (len(passage.id), len(passage.text), *map(len, parts))))
    return f"{lengths}\n{passage.id}{passage.text}{''.join(parts)}"


def trec_word(text: str, what: str) -> str:
    """Return an id as it is. One that would be several columns or lines, or none, is refused: readers would err."""
    if text.split() != [text] or one_line(text) != text:
        raise DataError(
            f"a TREC file cannot hold the {what} {text!r}",
            hint="It must be one word without spaces and control characters; rename it in the data.",
        )
    return text
