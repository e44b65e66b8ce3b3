"""Sections that a report has no room for: a note stands in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kshot.report.page.markup import Section, tag


def fitted_sections(sections: Sequence[Section], room: int) -> list[Section]:
    """Return sections of at most so many bytes together; the largest give way, one after the other.

    A section bounds its own charts and tables. Many of them, or names of many kilobytes, may still be too much.
    """
    found = list(sections)
    sizes = [len(section.html.encode("utf-8", "backslashreplace")) for section in found]
    while sum(sizes) > room:
        at = max(range(len(found)), key=lambda at: sizes[at])
        note = tag("p", _told(sizes[at]), class_="warning")
        if len(note) >= sizes[at]:
            break  # all that is left is short
        found[at], sizes[at] = replace(found[at], html=note), len(note.encode())
    return found


def _told(size: int) -> str:
    what = f"This section takes {size / 1e6:.1f} MB, and a report has no room for it."
    return f"{what} kshot view shows it, and summary.json has its figures."
