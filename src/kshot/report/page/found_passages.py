"""The passages that a search engine found, as data for pages: texts, the evidence in them, and what is missing.

Measures look for a quote after ``ftfy.fix_text`` has mended both texts. What it changes is led back to the characters
that it came from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import accumulate, pairwise, takewhile
from typing import Any, TypeAlias

from kshot.core.fixed_text import Fixer
from kshot.core.records import ResultRow
from kshot.core.visible import one_line, visible
from kshot.report.sample_look import evidence_quotes, evidence_ranks
from kshot.report.sample_texts import written
from kshot.runs.headline import finite

Span: TypeAlias = tuple[int, int, int]
"""Where evidence begins and ends in a text, and the component that it supports, from 1."""

_MAX_ALIGNED = 2_000
"""Characters of a changed piece that are compared one by one; a longer one is marked as a whole."""


def evidence_spans(text: str, quotes: Sequence[Sequence[str]]) -> list[Span]:
    """Return all places of all quotes in a text, in order; ``quotes`` are those of each component."""
    fix = Fixer()
    lines = list(fix.lines(text))
    fixed = "".join(each for _, each in lines)
    places = _Places(lines)
    found = [
        (places.start(at), places.end(at + len(quote)), number)
        for number, each in enumerate(quotes, start=1)
        for quote in dict.fromkeys(fix(one) for one in each)
        for at in _occurrences(fixed, quote)
    ]
    return sorted(set(found))


def script_length(text: str) -> int:
    """Return the length of a text as scripts of pages count it, and as they cut it: an emoji counts twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _occurrences(text: str, quote: str) -> Iterator[int]:
    at = text.find(quote) if quote else -1
    while at >= 0:
        yield at
        at = text.find(quote, at + len(quote))


class _Places:
    """From places in a fixed text to those in the text that it was made of."""

    def __init__(self, lines: Sequence[tuple[str, str]]) -> None:
        self._lines = lines
        self._fixed = [0, *accumulate(len(fixed) for _, fixed in lines)]
        self._own = [0, *accumulate(len(line) for line, _ in lines)]

    def start(self, at: int) -> int:
        """Return where the character at this place begins."""
        return self._piece(at)[0]

    def end(self, at: int) -> int:
        """Return where the character before this place ends."""
        return self._piece(at - 1)[1]

    def _piece(self, at: int) -> tuple[int, int]:
        """Return the characters that the one at this place of the fixed text came from."""
        number = min(bisect_right(self._fixed, at), len(self._lines)) - 1
        line, fixed = self._lines[number]
        first, last = _origin(line, fixed, at - self._fixed[number])
        return self._own[number] + first, self._own[number] + last


def _origin(line: str, fixed: str, at: int) -> tuple[int, int]:
    if line == fixed:
        return at, at + 1
    before = _common(line, fixed)
    if at < before:
        return at, at + 1
    after = min(_common(line[::-1], fixed[::-1]), len(line) - before, len(fixed) - before)
    if at >= len(fixed) - after:
        place = at - len(fixed) + len(line)
        return place, place + 1
    mine, theirs = line[before : len(line) - after], fixed[before : len(fixed) - after]
    first, last = _aligned(mine, theirs, at - before)
    return before + first, before + last


def _common(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _aligned(mine: str, theirs: str, at: int) -> tuple[int, int]:
    if max(len(mine), len(theirs)) > _MAX_ALIGNED:
        return 0, len(mine)
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, theirs, mine, autojunk=False).get_opcodes():
        if i1 <= at < i2:
            if kind == "equal":
                return j1 + at - i1, j1 + at - i1 + 1
            return (j1, j2) if j1 < j2 else (max(j1 - 1, 0), min(j1 + 1, len(mine)))  # new: it came from around there
    return 0, len(mine)


def passage_cards(row: ResultRow, passages: Sequence[ResultRow], texts: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return each passage with its rank, grade and text; ``marks`` are the places of the evidence in the text.

    A mark is ``[start, end, components]``; marks do not overlap, and components are counted from 1.
    """
    target, quotes = row.get("target"), evidence_quotes(row)
    grades = target if isinstance(target, dict) else {}
    recorded = evidence_ranks(row)
    cards = []
    for rank, hit in enumerate(passages, start=1):
        text = texts.get(hit["id"])
        marks = [] if text is None else _marks(text, quotes)
        found = {component for _, _, components in marks for component in components}
        told = {number for number, ranks in enumerate(recorded, start=1) if rank in ranks}
        grade = grades.get(hit["id"])
        cards.append(
            {
                "rank": rank,
                "id": one_line(hit["id"]),
                "score": finite(hit["score"]),
                "grade": one_line(written(grade)) if grade else None,
                "text": None if text is None else visible(text),
                "marks": []
                if text is None
                else [[script_length(visible(text[:a])), script_length(visible(text[:b])), of] for a, b, of in marks],
                "components": sorted(found | told),
            }
        )
    return cards


def component_cards(row: ResultRow, passages: Sequence[ResultRow], texts: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return each component of the answer: its quotes, any of which is enough, and the first passage that has one.

    ``state`` is ``found``, ``missing`` (in none of the passages that the measures look at), or ``unknown`` where the
    run does not say and has not all texts.
    """
    quotes = evidence_quotes(row)
    recorded = evidence_ranks(row)
    known = bool(recorded) or all(hit["id"] in texts for hit in passages)
    cards = []
    for number, each in enumerate(quotes):
        rank = min(recorded[number], default=None) if recorded else _first_rank(each, passages, texts)
        state = "found" if rank is not None else "missing" if known else "unknown"
        cards.append({"number": number + 1, "quotes": [visible(quote) for quote in each], "rank": rank, "state": state})
    return cards


def _first_rank(quotes: Sequence[str], passages: Sequence[ResultRow], texts: Mapping[str, str]) -> int | None:
    found = (bool(evidence_spans(texts.get(hit["id"], ""), [quotes])) for hit in passages)
    return next((rank for rank, has in enumerate(found, start=1) if has), None)


def _marks(text: str, quotes: Sequence[Sequence[str]]) -> list[tuple[int, int, list[int]]]:
    """Return the stretches of a text that are evidence, and the components of each; they do not overlap."""
    spans = evidence_spans(text, quotes)
    borders = sorted({border for start, end, _ in spans for border in (start, end)})
    stretches = [
        (start, end, sorted({number for first, last, number in spans if first <= start and end <= last}))
        for start, end in pairwise(borders)
    ]
    return [stretch for stretch in stretches if stretch[2]]
