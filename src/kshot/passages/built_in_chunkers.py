"""The built-in chunkers: how documents are cut into passages, written as ``NAME[:SIZE[/OVERLAP]][,key=value…]``."""

from __future__ import annotations

import difflib
import importlib
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from kshot.core.corpus import Chunk
from kshot.core.errors import UsageError
from kshot.core.extras import importing
from kshot.core.specs import split_options
from kshot.passages.counting import TOKENIZER_PACKAGES, Tokenizer, tokenizer

_NEWLINE = r"(?:\r\n|\n|\r(?!\n)|\f)"
_LINE = re.compile(_NEWLINE)
_PARAGRAPH = re.compile(rf"{_NEWLINE}[^\S\r\n\f]*{_NEWLINE}\s*")
_WORD = re.compile(r"(?<=\s)\S")
# A run of stops, perhaps closing marks, then white space, which full-width stops do not need. The look-behind keeps the
# pattern from trying a run again at each of its characters.
_STOP = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’»)\]]*\s+|[。！？｡]+[」』”’）】]*\s*")
_ABBREVIATIONS = {
    "al", "approx", "art", "cf", "ch", "co", "corp", "dept", "dr", "ed", "eds", "e.g", "eg", "eq", "est", "etc",
    "fig", "figs", "gen", "gov", "i.e", "ie", "inc", "jr", "ltd", "max", "min", "mr", "mrs", "ms", "no", "nos", "op",
    "p", "pp", "prof", "ref", "rev", "sec", "sr", "st", "vol", "vs",
}  # fmt: skip
_ABBREVIATION_CHARACTERS = 12
"""How far before a stop an abbreviation may begin."""

_HEADING = re.compile(r"[ ]{0,3}(#{1,6})(?:[ \t]+|$)")
_CLOSING = re.compile(r"(?:^|[ \t])#+$")
_FENCE = re.compile(r"[ ]{0,3}(`{3,}(?!.*`)|~{3,})")
_MAX_TITLE_CHARACTERS = 200
"""What is kept of a heading."""


def _inner(positions: Iterator[int], text: str) -> array[int]:
    return array("q", (position for position in positions if 0 < position < len(text)))


def paragraph_borders(text: str) -> array[int]:
    """Return the positions after each blank line."""
    return _inner((match.end() for match in _PARAGRAPH.finditer(text)), text)


def line_borders(text: str) -> array[int]:
    """Return the positions after each line break (LF, CR LF, CR, form feed)."""
    return _inner((match.end() for match in _LINE.finditer(text)), text)


def word_borders(text: str) -> array[int]:
    """Return the positions where white space ends."""
    return _inner((match.start() for match in _WORD.finditer(text)), text)


def sentence_borders(text: str) -> array[int]:
    """Return the positions after each sentence and each blank line.

    A stop ends a sentence if white space follows it, and then no lower-case letter. A single full stop after an
    abbreviation or an initial does not.
    """
    stops = (match.end() for match in _STOP.finditer(text) if _ends_sentence(text, match))
    return array("q", sorted({*_inner(stops, text), *paragraph_borders(text)}))


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    if match[0][0] in "。！？｡":
        return True
    following = text[match.end() : match.end() + 1]
    if following.islower():
        return False
    if match[0].rstrip() != ".":
        return True
    before = text[max(0, match.start() - _ABBREVIATION_CHARACTERS) : match.start()].split()
    last = before[-1].lstrip("(['\"“‘") if before and not text[match.start() - 1].isspace() else ""
    return not (last.lower() in _ABBREVIATIONS or (len(last) == 1 and last.isupper() and last != "I"))


def section_starts(text: str) -> list[tuple[int, tuple[str, ...]]]:
    """Return where each section begins, with the headings above it, outermost first; the first section has none.

    A heading is a markdown line of one to six ``#`` and a space, outside fenced code.
    """
    found: list[tuple[int, tuple[str, ...]]] = [(0, ())]
    above: list[tuple[int, str]] = []
    fence = ""
    for begin, end in pairwise((0, *line_borders(text), len(text))):
        line = text[begin:end].rstrip("\r\n\f")
        if mark := _FENCE.match(line):
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
        elif not fence and (heading := _HEADING.match(line)):
            depth = len(heading[1])
            title = _CLOSING.sub("", line[heading.end() :].strip()[:_MAX_TITLE_CHARACTERS]).strip()
            above = [*(each for each in above if each[0] < depth), (depth, title)]
            found.append((begin, tuple(title for _, title in above)))
    return found


LLAMA_INDEX = "llama-index-core"

_MAX_RUN_CHARACTERS = 100_000
"""The longest run without (or of) white space that the splitter gets: it makes an object of each character of a run."""

_RUN = re.compile(r"\S+|\s+")


@lru_cache(maxsize=16)
def _splitter(size: int, overlap: int, tokens: str) -> Callable[[str], list[str]]:
    with importing("the chunker 'sentence'", LLAMA_INDEX):
        parsers: Any = importlib.import_module("llama_index.core.node_parser")
        utils: Any = importlib.import_module("llama_index.core.node_parser.text.utils")
        punkt: Any = importlib.import_module("nltk.tokenize").PunktSentenceTokenizer()
    count = tokenizer(tokens).count

    @lru_cache(maxsize=4096)
    def count_character(character: str) -> int:
        return min(count(character), size)  # one character cannot be cut, so it always fits

    def tokenize(text: str) -> range:  # the splitter takes the length of what this returns
        return range(count_character(text) if len(text) == 1 else count(text))

    def sentences(text: str) -> list[str]:
        # The splitter's default, without its download where NLTK_DATA is set.
        found: list[str] = utils.split_by_sentence_tokenizer_internal(text, punkt)
        return found

    splitter = parsers.SentenceSplitter(
        chunk_size=size, chunk_overlap=overlap, tokenizer=tokenize, chunking_tokenizer_fn=sentences
    )
    split: Callable[[str], list[str]] = splitter.split_text
    return split


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the text in blocks: runs that are too long are cut, any other text stays whole."""
    begin = 0
    for run in _RUN.finditer(text) if len(text) > _MAX_RUN_CHARACTERS else ():
        for cut in range(run.start() + _MAX_RUN_CHARACTERS, run.end(), _MAX_RUN_CHARACTERS):
            yield begin, text[begin:cut]
            begin = cut
    if begin < len(text):
        yield begin, text[begin:]


def _located(text: str, chunks: Sequence[str]) -> Iterator[tuple[str, int | None]]:
    """Find each chunk by its characters that are not white space: the splitter keeps all of those.

    The position is ``None`` where a chunk has other white space than the text.
    """
    runs = [run.span() for run in re.finditer(r"\S+", text)]
    before, total = [], 0
    for begin, end in runs:
        before.append(total)
        total += end - begin
    squeezed = "".join(text[begin:end] for begin, end in runs)
    covered = 0
    for chunk in chunks:
        solid = "".join(chunk.split())
        # The last match that begins within what is covered so far: where a text repeats itself, the first match may lie
        # too far back for the chunks that follow.
        at = squeezed.rfind(solid, 0, covered + len(solid))
        if at < 0:
            yield chunk, None
            continue
        covered = max(covered, at + len(solid))
        run = bisect_right(before, at) - 1
        start = runs[run][0] + at - before[run]
        yield chunk, start if text.startswith(chunk, start) else None


Span: TypeAlias = tuple[int, int]
"""The positions of the first character and of the one after the last."""


def trimmed(text: str, begin: int, end: int) -> Span:
    """Return the span without white space at its ends; it is empty if there is nothing else."""
    while begin < end and text[begin].isspace():
        begin += 1
    while begin < end and text[end - 1].isspace():
        end -= 1
    return begin, end


def windows(text: str, borders: Sequence[int], size: int, overlap: int) -> Iterator[Span]:
    """Yield windows of ``size`` units that share ``overlap`` units with the one before; blank units do not count."""
    spans = (trimmed(text, begin, end) for begin, end in pairwise((0, *borders, len(text))))
    units = [(begin, end) for begin, end in spans if begin < end]
    for first in range(0, len(units), size - overlap):
        yield units[first][0], units[min(first + size, len(units)) - 1][1]
        if first + size >= len(units):
            return


def packed(
    text: str,
    kinds: Sequence[Sequence[int]],
    tokenizer: Tokenizer,
    size: int,
    overlap: int,
    *,
    restart_at: Sequence[Sequence[int]] | None = None,
) -> Iterator[Span]:
    """Yield chunks of at most ``size`` tokens that end at the last border of the strongest kind within reach.

    ``kinds`` are borders, strongest kind first. Where none is within reach, the cut is between two tokens; no character
    is ever broken. A chunk begins up to ``overlap`` tokens before the end of the one before it, at the strongest border
    there (one of ``restart_at``, if given; else of ``kinds``, or between two tokens). The tokens of the text are found
    once; each chunk is then counted by itself.
    """
    packing = _Packing(text, kinds, tokenizer, size, overlap)
    starts = (*kinds, packing.tokens) if restart_at is None else restart_at
    begin, done = trimmed(text, 0, len(text))[0], 0
    while begin < packing.stop:
        end = packing.end(begin, max(begin, done))
        if end is None:  # the overlap leaves no room for anything new
            begin = trimmed(text, done, packing.stop)[0]
            continue
        yield trimmed(text, begin, end)
        done = trimmed(text, end, packing.stop)[0]
        begin = packing.next_begin(begin, end, starts) if done < packing.stop else done


class _Packing:
    """The borders and tokens of one text, and where its chunks begin and end."""

    def __init__(
        self, text: str, kinds: Sequence[Sequence[int]], tokenizer: Tokenizer, size: int, overlap: int
    ) -> None:
        self.text, self.kinds, self.tokenizer, self.size, self.overlap = text, kinds, tokenizer, size, overlap
        self.tokens = tokenizer.starts(text)
        self.stop = trimmed(text, 0, len(text))[1]

    def end(self, begin: int, after: int) -> int | None:
        """Return the end of the chunk, beyond ``after``; None if the chunk is then too long and could begin later."""
        limit = self._reach(begin)
        while limit > after:
            end = self._border(after, limit)
            first, last = trimmed(self.text, begin, end)
            if self.tokenizer.count(self.text[first:last]) <= self.size:
                return end
            # A piece by itself may have more tokens than it has within the text: cut it at its own tokens.
            limit = first + self.tokenizer.starts(self.text[first:last])[self.size]
        return begin + 1 if after == begin else None

    def next_begin(self, begin: int, end: int, starts: Sequence[Sequence[int]]) -> int:
        """Return the begin of the next chunk: after ``begin``, within the overlap before ``end``, or at ``end``."""
        first = bisect_left(self.tokens, end) - self.overlap
        earliest = max(self.tokens[first] if 0 <= first < len(self.tokens) else 0, begin + 1)
        found = end
        for kind in starts if self.overlap else ():
            at = bisect_left(kind, earliest)
            if at < len(kind) and kind[at] < end:
                found = kind[at]
                break
        return trimmed(self.text, found, self.stop)[0]

    def _reach(self, begin: int) -> int:
        """Return the end of as many tokens of the text as a chunk may have."""
        first = bisect_left(self.tokens, begin)
        if first == len(self.tokens) or self.tokens[first] > begin:  # it begins inside a token
            first = max(0, first - 1)
        after = first + self.size
        return self.tokens[after] if after < len(self.tokens) else self.stop

    def _border(self, after: int, limit: int) -> int:
        """Return the strongest border beyond ``after`` and up to ``limit``; ``limit`` itself if there is none."""
        if limit >= self.stop:
            return self.stop
        for kind in self.kinds:
            at = bisect_right(kind, limit) - 1
            if at >= 0 and kind[at] > after:
                return kind[at]
        return limit


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
    split = _splitter(chunker.size, chunker.overlap, chunker.tokenizer)
    for begin, block in _blocks(text):
        for chunk, start in _located(block, split(block)):
            yield chunk, None if start is None else begin + start, ()


def _tokens(text: str, chunker: Chunker) -> Iterator[_Piece]:
    return _pieces(text, packed(text, (), tokenizer(chunker.tokenizer), chunker.size, chunker.overlap))


def _recursive(text: str, chunker: Chunker) -> Iterator[_Piece]:
    kinds = [find(text) for find in (paragraph_borders, line_borders, sentence_borders, word_borders)]
    return _pieces(text, packed(text, kinds, tokenizer(chunker.tokenizer), chunker.size, chunker.overlap))


def _headings(text: str, chunker: Chunker) -> Iterator[_Piece]:
    for (begin, section), (end, _) in pairwise([*section_starts(text), (len(text), ())]):
        for piece, start, _ in _recursive(text[begin:end], chunker):
            yield piece, None if start is None else begin + start, section


def _windows(text: str, chunker: Chunker) -> Iterator[_Piece]:
    ends = sentence_borders(text)
    if chunker.unit == "sentences":
        return _pieces(text, windows(text, ends, chunker.size, chunker.overlap))
    kinds, by = [ends, word_borders(text)], tokenizer(chunker.tokenizer)
    return _pieces(text, packed(text, kinds, by, chunker.size, chunker.overlap, restart_at=[ends]))


def _lines(text: str, chunker: Chunker) -> Iterator[_Piece]:
    return _pieces(text, windows(text, line_borders(text), chunker.size, chunker.overlap))


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
