"""What a report has no room for: tables behind charts give way first, then charts, then sections; a note says so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from kshot.report.page.markup import Section, tag

_TABLE = re.compile(r'<details class="numbers">.*?</details>', re.DOTALL)
_CHART = re.compile(r'<figure class="chart.*?</figure>', re.DOTALL)
"""Foreign texts are escaped, and neither stands within another of its kind: the first end is its own."""

_NO_TABLE = tag("p", "The table has no room in this report; summary.json has its numbers.", class_="chart-note")
_NO_CHART = tag("p", "A chart has no room in this report; kshot view shows it.", class_="chart-note")


def fitted_sections(sections: Sequence[Section], room: int) -> list[Section]:
    """Return sections of at most so many bytes together, without what is too much: the largest gives way first.

    Charts and tables are bounded; many of them, or names of many kilobytes, may still be too much.
    """
    found = [section.html for section in sections]
    for pattern, note in ((_TABLE, _NO_TABLE), (_CHART, _NO_CHART)):
        if (beyond := sum(map(_bytes, found)) - room) > 0:
            found = _without_largest(found, pattern, note, beyond)
    while sum(map(_bytes, found)) > room:
        size, at = max((_bytes(html), at) for at, html in enumerate(found))
        told = tag("p", _told(size), class_="warning")
        if len(told) >= size:
            break  # all that is left is short
        found[at] = told
    return [replace(section, html=html) for section, html in zip(sections, found, strict=True)]


def _without_largest(found: Sequence[Markup], pattern: re.Pattern[str], note: Markup, beyond: int) -> list[Markup]:
    """Return the pages with the note in the place of pieces, the largest first, until so many bytes are gone."""
    pieces = [
        (_bytes(piece[0]), at, piece.start()) for at, html in enumerate(found) for piece in pattern.finditer(html)
    ]
    gone: set[tuple[int, int]] = set()
    for size, at, start in sorted(pieces, reverse=True):
        if beyond <= 0 or size <= len(note):
            break
        gone.add((at, start))
        beyond -= size - len(note)

    def kept(at: int, html: Markup) -> Markup:
        text = pattern.sub(lambda piece: note if (at, piece.start()) in gone else piece[0], html)
        return Markup(text)  # noqa: S704 - pieces of what was safe

    return [kept(at, html) for at, html in enumerate(found)]


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace"))


def _told(size: int) -> str:
    what = f"This section takes {size / 1e6:.1f} MB, and a report has no room for it."
    return f"{what} kshot view shows it, and summary.json has its figures."
