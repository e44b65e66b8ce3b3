"""Chunkers: how documents are cut into passages, written as ``NAME[:SIZE[/OVERLAP]][,key=value…]``."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from kshot.core.corpus import Chunk, Passage
from kshot.core.errors import DataError, UsageError
from kshot.core.protocols import TextChunker
from kshot.core.registry import Entry, Registry, construct, parse_spec
from kshot.passages import borders
from kshot.passages.counting import tokenizer
from kshot.passages.documents import Document
from kshot.passages.llama import sentence_chunks
from kshot.passages.packing import packed, windows

_Cut: TypeAlias = "tuple[str, int | None, tuple[str, ...]]"


class _Kind(NamedTuple):
    """What a name stands for; sizes count ``unit``, and a size of 0 means that it takes none."""

    text: str
    cut: Callable[[str, Chunker], Iterator[_Cut]]
    size: int
    overlap: int
    tokenizer: str = "words"
    unit: str = "tokens"


@dataclass(frozen=True, slots=True)
class Chunker:
    """A way to cut texts; ``str()`` writes it as ``chunker()`` reads it.

    Each text is first cut into ``parts`` equal lengths. No chunk has more than ``size`` tokens, but for one character
    that alone has more, for ``windows`` and ``lines`` that count sentences and lines, and for ``sentence``, whose
    splitter adds up the lengths of pieces (the sum and the length of the whole may differ by a few).
    """

    name: str
    size: int
    overlap: int
    unit: str
    tokenizer: str
    parts: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot be cut by."""
        if self.name not in KINDS:
            raise UsageError(f"there is no chunker {self.name!r}", hint=_meant(self.name, KINDS, "Chunkers"))
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
        """Cut a text into chunks, in its order; together they hold all of it but white space."""
        count = tokenizer(self.tokenizer).count
        cut = KINDS[self.name].cut
        parts = min(self.parts, max(1, len(text)))
        bounds = [part * len(text) // parts for part in range(parts + 1)]
        return [
            Chunk(piece, None if start is None else begin + start, count(piece), section)
            for begin, end in pairwise(bounds)
            for piece, start, section in cut(text[begin:end], self)
        ]


# ---- The kinds ----


def _spans(text: str, spans: Iterable[tuple[int, int]]) -> Iterator[_Cut]:
    return ((text[begin:end], begin, ()) for begin, end in spans if begin < end)


def _sentence(text: str, by: Chunker) -> Iterator[_Cut]:
    for chunk, start in sentence_chunks(text, by.size, by.overlap, by.tokenizer):
        yield chunk, start, ()


def _tokens(text: str, by: Chunker) -> Iterator[_Cut]:
    return _spans(text, packed(text, (), tokenizer(by.tokenizer), by.size, by.overlap))


def _recursive(text: str, by: Chunker) -> Iterator[_Cut]:
    kinds = [find(text) for find in (borders.paragraphs, borders.lines, borders.sentences, borders.words)]
    return _spans(text, packed(text, kinds, tokenizer(by.tokenizer), by.size, by.overlap))


def _headings(text: str, by: Chunker) -> Iterator[_Cut]:
    found = borders.sections(text)
    for (begin, section), (end, _) in zip(found, [*found[1:], (len(text), ())], strict=True):
        for piece, start, _ in _recursive(text[begin:end], by):
            yield piece, None if start is None else begin + start, section


def _windows(text: str, by: Chunker) -> Iterator[_Cut]:
    ends = borders.sentences(text)
    if by.unit == "sentences":
        return _spans(text, windows(text, ends, by.size, by.overlap))
    kinds = [ends, borders.words(text)]
    return _spans(text, packed(text, kinds, tokenizer(by.tokenizer), by.size, by.overlap, resume=[ends]))


def _lines(text: str, by: Chunker) -> Iterator[_Cut]:
    return _spans(text, windows(text, borders.lines(text), by.size, by.overlap))


def _whole(text: str, _: Chunker) -> Iterator[_Cut]:
    return _spans(text, windows(text, (), 1, 0))


KINDS: Mapping[str, _Kind] = {
    "sentence": _Kind("whole sentences up to SIZE tokens, as llama-index does", _sentence, 500, 64, "cl100k"),
    "tokens": _Kind("SIZE tokens, wherever they end", _tokens, 256, 32),
    "recursive": _Kind("paragraphs, else lines, else sentences, else words, up to SIZE tokens", _recursive, 500, 64),
    "headings": _Kind("sections under markdown headings, longer ones cut as by recursive", _headings, 500, 0),
    "windows": _Kind("SIZE whole sentences (unit=tokens: SIZE tokens of them)", _windows, 5, 2, unit="sentences"),
    "lines": _Kind("SIZE lines that are not blank", _lines, 1, 0, unit="lines"),
    "whole": _Kind("each document as one passage", _whole, 0, 0, unit=""),
}
CHUNKERS = Registry(
    "chunkers",
    "chunker",
    [
        Entry(name, f"{__name__}:Chunker", kind.text, f"{name}[:SIZE[/OVERLAP]][,key=value…]" if kind.size else name)
        for name, kind in KINDS.items()
    ],
)

_WINDOWS_OF_TOKENS = (256, 64)
_KEYS = ("tokenizer", "parts", "unit")


# ---- Reading a chunker ----


class PlugInChunker:
    """A chunker of a user or a package, under the spec that names it."""

    def __init__(self, spec: str, cut: Callable[[str], Iterable[Chunk | str]]) -> None:
        """Take the function that cuts; it may give plain texts."""
        self._spec, self._cut = spec, cut

    def __str__(self) -> str:
        return self._spec

    def cut(self, text: str) -> list[Chunk]:
        """Cut a text; of plain texts the place is looked up, and the words are counted."""
        chunks: list[Chunk] = []
        after = 0
        for piece in self._cut(text):
            if isinstance(piece, str):
                start = text.find(piece, after)
                after = max(after, start)
                chunks.append(Chunk(piece, start if start >= 0 else None, tokenizer("words").count(piece)))
            elif isinstance(piece, Chunk):
                chunks.append(piece)
            else:
                raise DataError(f"it gave {piece!r:.60} where a chunk belongs", where=f"chunker {self._spec}")
        return chunks


def make_chunker(text: str) -> TextChunker:
    """Return the chunker that a spec names: a built-in one, ``file.py:Class``, or one of an installed package."""
    spec = parse_spec(text)
    if spec.name.strip() in KINDS:
        return built_in_chunker(text)
    found, rest = CHUNKERS.load(spec)
    made = construct(found, spec, *([rest] if rest else [])) if isinstance(found, type) else found
    cut = made.cut if isinstance(made, TextChunker) else made
    if not callable(cut):
        raise UsageError(
            "it is not a chunker", where=text, hint="It needs a method cut(text), or is a function itself."
        )
    return PlugInChunker(text, cut)


def built_in_chunker(spec: str) -> Chunker:
    """Read ``NAME[:SIZE[/OVERLAP]][,key=value…]``, such as ``sentence:500/64,parts=2``.

    Keys: ``tokenizer`` (see ``counting.tokenizer``), ``parts``, and ``unit`` for ``windows`` (sentences, tokens).
    An overlap that is left out is in proportion to the default one.
    """
    head, *rest = spec.split(",")
    name, colon, lengths = (part.strip() for part in head.partition(":"))
    if name not in KINDS:
        raise UsageError(f"there is no chunker {name!r}", hint=_meant(name, KINDS, "Chunkers"))
    kind = KINDS[name]
    keys = _keys(spec, rest)
    unit = _unit(spec, name, kind, keys.get("unit"))
    default = _WINDOWS_OF_TOKENS if unit != kind.unit else (kind.size, kind.overlap)
    size, overlap = default
    if colon:
        if not kind.size:
            raise UsageError("it takes no size", where=f"chunker {spec}", hint=f"Write {name}.")
        written, slash, again = lengths.partition("/")
        size = _number(spec, "SIZE", written)
        overlap = _number(spec, "OVERLAP", again) if slash else size * default[1] // default[0]
    parts = _number(spec, "parts", keys.get("parts", "1"))
    try:
        return Chunker(name, size, overlap, unit, keys.get("tokenizer", kind.tokenizer), parts)
    except UsageError as exc:
        raise UsageError(exc.what, where=f"chunker {spec}", hint=exc.hint) from None


def _keys(spec: str, written: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in written:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not value:
            raise UsageError(f"{pair!r} is not key=value", where=f"chunker {spec}", hint=f"Keys: {', '.join(_KEYS)}.")
        if key not in _KEYS:
            raise UsageError(f"there is no key {key!r}", where=f"chunker {spec}", hint=_meant(key, _KEYS, "Keys"))
        if key in found:
            raise UsageError(f"{key} is given twice", where=f"chunker {spec}")
        found[key] = value
    return found


def _unit(spec: str, name: str, kind: _Kind, written: str | None) -> str:
    if written is None:
        return kind.unit
    if name != "windows":
        raise UsageError(f"unit is for windows, not for {name}", where=f"chunker {spec}")
    if written not in {"sentences", "tokens"}:
        raise UsageError(f"there is no unit {written!r}", where=f"chunker {spec}", hint="Units: sentences, tokens.")
    return written


def _number(spec: str, what: str, written: str) -> int:
    try:
        return int(written)
    except ValueError:
        hint = "Write NAME:SIZE/OVERLAP, such as recursive:500/64."
        raise UsageError(
            f"{what} must be a whole number, not {written!r}", where=f"chunker {spec}", hint=hint
        ) from None


def _meant(wrong: str, known: Iterable[str], title: str) -> str:
    close = difflib.get_close_matches(wrong, list(known), 1)
    return (f"Did you mean {close[0]!r}? " if close else "") + f"{title}: {', '.join(known)}."


# ---- Passages ----


def passages_of(
    documents: Iterable[Document], by: TextChunker, fields: Callable[[Document], Mapping[str, str]] | None = None
) -> list[Passage]:
    """Cut documents into passages ``NAME:0``, ``NAME:1``, … in order.

    Their fields are those that ``fields`` gives for the document (default: ``document``, its name), and ``section``
    where the chunker knows the headings above.
    """
    made = []
    for document in documents:
        own = {"document": document.name} if fields is None else dict(fields(document))
        for number, chunk in enumerate(by.cut(document.text)):
            under = {"section": " > ".join(chunk.section)} if chunk.section else {}
            made.append(Passage(f"{document.name}:{number}", chunk.text, {**own, **under}, chunk.tokens))
    return made
