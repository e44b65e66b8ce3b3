"""What all charts have: a figure with a title, the picture, a legend or a note, and the table behind it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from kshot.report.page.markup import tag
from kshot.report.page.tables import table_html
from kshot.report.view import TableView

_VALUES = re.compile(r"(?<=\d) (?=%)|(?<=\bp) (?=[<\d])|(?<=\bp <) (?=\d)|(?<=\bk) (?==)|(?<=\bk =) (?=\d)")
"""Blanks within a value, at which no line is broken: 95 %, p < 0.0001, k = 5."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture and what stands around it. ``id`` is unique on its page; ``wide`` takes the whole width of a grid.

    One that is ``tall`` has two others beside it, one below the other, where a grid has two columns.

    A picture that ``scrolls`` keeps its size on a narrow screen; the keyboard can reach it.
    """

    id: str
    title: str
    picture: Markup
    table: TableView
    notes: Sequence[Markup | str] = ()
    legend: Markup = field(default_factory=Markup)
    wide: bool = False
    tall: bool = False
    scrolls: bool = False

    @property
    def html(self) -> Markup:
        """The whole figure."""
        notes = [tag("p", note, class_="chart-note") for note in self.notes]
        reached = {"tabindex": 0, "role": "group", "aria_label": self.title} if self.scrolls else {}
        numbers = table_html(self.table, f"{self.title}: the numbers")
        behind = tag("details", tag("summary", "The numbers"), numbers, class_="numbers")
        caption, box = tag("figcaption", self.title), tag("div", self.picture, class_="scroll", **reached)
        class_ = " ".join(["chart", *(["wide"] if self.wide else []), *(["tall"] if self.tall else [])])
        return tag("figure", caption, self.legend, box, *notes, behind, class_=class_, id=self.id)


def chart_grid(charts: Iterable[Markup]) -> Markup:
    """Return charts side by side, as many as fit."""
    return tag("div", *charts, class_="charts")


def folded(title: str, *inner: Markup | str) -> Markup:
    """Return a part of a page that opens on demand."""
    return tag("details", tag("summary", title), *inner, class_="folded")


def sentences(found: Iterable[str]) -> Markup:
    """Return what figures say, as a list; nothing if they say nothing."""
    said = [tag("li", _VALUES.sub("\xa0", line)) for line in found]
    return tag("ul", *said, class_="findings") if said else Markup("")
