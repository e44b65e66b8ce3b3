"""The passages that a search engine found, as data for pages: texts, the evidence in them, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from kshot.core.records import ResultRow
from kshot.core.visible import one_line, visible
from kshot.report.page.passage_marks import evidence_spans, script_length
from kshot.report.sample_evidence import evidence_quotes, evidence_ranks
from kshot.report.sample_texts import written
from kshot.runs.headline import finite


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
                "marks": [] if text is None else [_shown(text, mark) for mark in marks],
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


def _shown(text: str, mark: tuple[int, int, list[int]]) -> list[Any]:
    """Return a mark with its places in the text as pages show it, where an unsafe character is longer."""
    start, end, components = mark
    return [script_length(visible(text[:start])), script_length(visible(text[:end])), components]
