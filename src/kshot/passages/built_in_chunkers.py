"""The built-in chunkers: how documents are cut into passages, written as ``NAME[:SIZE[/OVERLAP]][,key=value…]``."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from kshot.core.corpus import Chunk
from kshot.core.errors import UsageError
from kshot.core.specs import split_options
from kshot.passages import borders
from kshot.passages.counting import TOKENIZER_PACKAGES, tokenizer
from kshot.passages.llama import LLAMA_INDEX, sentence_chunks
from kshot.passages.packing import Span, packed, windows

_Piece: TypeAlias = "tuple[str, int | None, tuple[str, ...]]"
"""The text of a chunk, its position in the document, and the headings above it."""


class ChunkerKind(NamedTuple):
    """What a name stands for. Sizes count ``unit``; a default size of 0 means that the kind takes no size."""

    text: str
    cut: Callable[[str, Chunker], Iterator[_Piece]]
    size: int
    overlap: int
    tokenizer: str = "words"
    unit: str = "tokens"


@dataclass(frozen=True, slots=True)
class Chunker:
    """A built-in way to cut texts; ``str()`` writes it as ``built_in_chunker`` reads it.

    Each text is first cut into ``parts`` equal lengths. No chunk has more than ``size`` tokens, with three exceptions:
    one character that alone has more; ``windows`` and ``lines``, which count sentences and lines; and ``sentence``,
    whose splitter adds up the lengths of pieces (the sum may differ from the length of the whole by a few tokens).
    """

    name: str
    size: int
    overlap: int
    unit: str
    tokenizer: str
    parts: int = 1

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages of kshot's extras that it needs."""
        of_kind = (LLAMA_INDEX,) if self.name == "sentence" else ()
        return (*of_kind, *TOKENIZER_PACKAGES.get(self.tokenizer, ()))

    def __post_init__(self) -> None:
        """Refuse sizes that cannot be used."""
        if self.name not in KINDS:
            raise UsageError(f"there is no chunker {self.name!r}", hint=_suggestion(self.name, KINDS, "Chunkers"))
        if self.parts < 1:
            raise UsageError(f"a text cannot be cut into {self.parts} parts", hint="parts must be 1 or more.")
        if not KINDS[self.name].size:
            return
        if self.size < 1:
            raise UsageError(f"a chunk of {self.size} {self.unit} holds nothing", hint="SIZE must be 1 or more.")
        if not 0 <= self.overlap < self.size:
            raise UsageError(
                f"an overlap of {self.overlap} leaves no room in chunks of {self.size} {self.unit}",
                hint="OVERLAP must be less than SIZE.",
            )

    def __str__(self) -> str:
        kind = KINDS[self.name]
        text = self.name if not kind.size else f"{self.name}:{self.size}"
        text += f"/{self.overlap}" if self.overlap or kind.overlap else ""
        text += f",unit={self.unit}" if self.unit != kind.unit else ""
        text += f",tokenizer={self.tokenizer}" if self.tokenizer != kind.tokenizer else ""
        return text + (f",parts={self.parts}" if self.parts > 1 else "")

    def cut(self, text: str) -> list[Chunk]:
        """Cut a text into chunks, in its order; together they contain everything but white space."""
        count = tokenizer(self.tokenizer).count
        cut = KINDS[self.name].cut
        parts = min(self.parts, max(1, len(text)))
        part_borders = [part * len(text) // parts for part in range(parts + 1)]
        return [
            Chunk(piece, None if start is None else begin + start, count(piece), section)
            for begin, end in pairwise(part_borders)
            for piece, start, section in cut(text[begin:end], self)
        ]


# ---- the kinds ----


def _pieces(text: str, spans: Iterable[Span]) -> Iterator[_Piece]:
    return ((text[begin:end], begin, ()) for begin, end in spans if begin < end)


def _sentence(text: str, chunker: Chunker) -> Iterator[_Piece]:
    for chunk, start in sentence_chunks(text, chunker.size, chunker.overlap, chunker.tokenizer):
        yield chunk, start, ()


def _tokens(text: str, chunker: Chunker) -> Iterator[_Piece]:
    return _pieces(text, packed(text, (), tokenizer(chunker.tokenizer), chunker.size, chunker.overlap))


def _recursive(text: str, chunker: Chunker) -> Iterator[_Piece]:
    kinds = [find(text) for find in (borders.paragraphs, borders.lines, borders.sentences, borders.words)]
    return _pieces(text, packed(text, kinds, tokenizer(chunker.tokenizer), chunker.size, chunker.overlap))


def _headings(text: str, chunker: Chunker) -> Iterator[_Piece]:
    sections = borders.sections(text)
    for (begin, section), (end, _) in zip(sections, [*sections[1:], (len(text), ())], strict=True):
        for piece, start, _ in _recursive(text[begin:end], chunker):
            yield piece, None if start is None else begin + start, section


def _windows(text: str, chunker: Chunker) -> Iterator[_Piece]:
    ends = borders.sentences(text)
    if chunker.unit == "sentences":
        return _pieces(text, windows(text, ends, chunker.size, chunker.overlap))
    kinds, by = [ends, borders.words(text)], tokenizer(chunker.tokenizer)
    return _pieces(text, packed(text, kinds, by, chunker.size, chunker.overlap, restart_at=[ends]))


def _lines(text: str, chunker: Chunker) -> Iterator[_Piece]:
    return _pieces(text, windows(text, borders.lines(text), chunker.size, chunker.overlap))


def _whole(text: str, _: Chunker) -> Iterator[_Piece]:
    return _pieces(text, windows(text, (), 1, 0))


KINDS: Mapping[str, ChunkerKind] = {
    "sentence": ChunkerKind("whole sentences up to SIZE tokens, as llama-index does", _sentence, 500, 64, "cl100k"),
    "tokens": ChunkerKind("SIZE tokens, wherever they end", _tokens, 256, 32),
    "recursive": ChunkerKind(
        "paragraphs, else lines, else sentences, else words, up to SIZE tokens", _recursive, 500, 64
    ),
    "headings": ChunkerKind("sections under markdown headings, longer ones cut as by recursive", _headings, 500, 0),
    "windows": ChunkerKind("SIZE whole sentences (unit=tokens: SIZE tokens of them)", _windows, 5, 2, unit="sentences"),
    "lines": ChunkerKind("SIZE lines that are not blank", _lines, 1, 0, unit="lines"),
    "whole": ChunkerKind("each document as one passage", _whole, 0, 0, unit=""),
}

_TOKEN_WINDOWS = (256, 64)
"""Default size and overlap of ``windows,unit=tokens``."""

_KEYS = ("tokenizer", "parts", "unit")


# ---- reading a spec ----


def built_in_chunker(spec: str) -> Chunker:
    """Read ``NAME[:SIZE[/OVERLAP]][,key=value…]``, such as ``sentence:500/64,parts=2``.

    Keys: ``tokenizer`` (see ``counting.tokenizer``), ``parts``, and ``unit`` for ``windows`` (sentences, tokens).
    Without an overlap, the overlap is in proportion to the default one.
    """
    head, options = split_options(spec)
    head, comma, other = head.partition(",")
    if comma:
        raise UsageError(f"{other!r} is not key=value", where=f"chunker {spec}", hint=f"Keys: {', '.join(_KEYS)}.")
    name, colon, lengths = (part.strip() for part in head.partition(":"))
    if name not in KINDS:
        raise UsageError(f"there is no chunker {name!r}", hint=_suggestion(name, KINDS, "Chunkers"))
    kind = KINDS[name]
    keys = _keys(spec, options)
    unit = _unit(spec, name, kind, keys.get("unit"))
    default = _TOKEN_WINDOWS if unit != kind.unit else (kind.size, kind.overlap)
    size, overlap = default
    if colon:
        if not kind.size:
            raise UsageError("it takes no size", where=f"chunker {spec}", hint=f"Write {name}.")
        size_text, slash, overlap_text = lengths.partition("/")
        size = _number(spec, "SIZE", size_text)
        overlap = _number(spec, "OVERLAP", overlap_text) if slash else size * default[1] // default[0]
    parts = _number(spec, "parts", keys.get("parts", "1"))
    try:
        return Chunker(name, size, overlap, unit, keys.get("tokenizer", kind.tokenizer), parts)
    except UsageError as exc:
        raise UsageError(exc.what, where=f"chunker {spec}", hint=exc.hint) from None


def _keys(spec: str, options: Mapping[str, str]) -> dict[str, str]:
    for key, value in options.items():
        if key not in _KEYS:
            raise UsageError(f"there is no key {key!r}", where=f"chunker {spec}", hint=_suggestion(key, _KEYS, "Keys"))
        if not value.strip():
            raise UsageError(f"{key} has no value", where=f"chunker {spec}", hint=f"Write {key}=VALUE.")
    return {key: value.strip() for key, value in options.items()}


def _unit(spec: str, name: str, kind: ChunkerKind, unit: str | None) -> str:
    if unit is None:
        return kind.unit
    if name != "windows":
        raise UsageError(f"unit is for windows, not for {name}", where=f"chunker {spec}")
    if unit not in {"sentences", "tokens"}:
        raise UsageError(f"there is no unit {unit!r}", where=f"chunker {spec}", hint="Units: sentences, tokens.")
    return unit


def _number(spec: str, name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        hint = "Write NAME:SIZE/OVERLAP, such as recursive:500/64."
        raise UsageError(f"{name} must be a whole number, not {text!r}", where=f"chunker {spec}", hint=hint) from None


def _suggestion(wrong: str, known: Iterable[str], title: str) -> str:
    close = difflib.get_close_matches(wrong, list(known), 1)
    return (f"Did you mean {close[0]!r}? " if close else "") + f"{title}: {', '.join(known)}."
