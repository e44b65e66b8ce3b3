"""Where the parts of a text begin: paragraphs, lines, sentences, words, and sections under headings.

Every function returns the positions at which a text may be cut, in ascending order, never 0. It takes time in
proportion to the length of any text.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

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


def paragraphs(text: str) -> array[int]:
    """Return the positions after each blank line."""
    return _inner((match.end() for match in _PARAGRAPH.finditer(text)), text)


def lines(text: str) -> array[int]:
    """Return the positions after each line break (LF, CR LF, CR, form feed)."""
    return _inner((match.end() for match in _LINE.finditer(text)), text)


def words(text: str) -> array[int]:
    """Return the positions where white space ends."""
    return _inner((match.start() for match in _WORD.finditer(text)), text)


def sentences(text: str) -> array[int]:
    """Return the positions after each sentence and each blank line.

    A stop ends a sentence if white space follows it, and then no lower-case letter. A single full stop after an
    abbreviation or an initial does not.
    """
    stops = (match.end() for match in _STOP.finditer(text) if _ends_sentence(text, match))
    return array("q", sorted({*_inner(stops, text), *paragraphs(text)}))


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


def sections(text: str) -> list[tuple[int, tuple[str, ...]]]:
    """Return where each section begins, with the headings above it, outermost first; the first section has none.

    A heading is a markdown line of one to six ``#`` and a space, outside fenced code.
    """
    found: list[tuple[int, tuple[str, ...]]] = [(0, ())]
    above: list[tuple[int, str]] = []
    fence = ""
    for begin, end in _spans(text, lines(text)):
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


def _spans(text: str, borders: array[int]) -> Iterator[tuple[int, int]]:
    begin = 0
    for end in (*borders, len(text)):
        yield begin, end
        begin = end
