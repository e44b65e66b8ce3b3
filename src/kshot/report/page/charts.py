"""What all charts have: a figure with a title, the picture, a legend or a note, and the table behind it; and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from kshot.report.page.markup import figure, tag, text, together
from kshot.report.view import Cell, Column, Content, TableView, cell_of

MAX_LISTED = 200
"""Rows of a table; ``summary.json`` has all."""


def table_html(view: TableView, name: str) -> Markup:
    """Return a table within a box that scrolls; ``name`` says to those who cannot see it what it holds.

    A text that is ``Markup`` stays as it is. The first cell of a row names it.
    """
    head = tag(
        "tr",
        *(
            tag("th", column.heading, scope="col", class_=None if column.kind == "words" else "num")
            for column in view.columns
        ),
    )
    shown, left = view.rows[:MAX_LISTED], len(view.rows) - MAX_LISTED
    body = [
        tag(
            "tr",
            *(_cell(*each, first=not at) for at, each in enumerate(zip(view.columns, row, strict=True))),
            class_="differs" if number in view.marked else None,
        )
        for number, row in enumerate(shown)
    ]
    more = tag("p", f"… and {left:,} more in summary.json", class_="chart-note") if left > 0 else ""
    inner = tag("table", tag("thead", head), tag("tbody", *body))
    return together((tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=name), more))


def _cell(column: Column, content: Content, *, first: bool) -> Markup:
    if column.kind == "words":
        shown = content if isinstance(content, Markup) else text(cell_of(content).written)
        return tag("th", shown, scope="row") if first and shown else tag("td", shown)
    if not isinstance(content, Cell):
        return tag("td", content or "", class_=None if content is None else "num")
    if column.kind == "number":
        return tag("td", figure(content.number, content.written, content.field), class_="num", data_row=content.source)
    if content.interval is None:
        return tag("td", class_="num")
    low, high = content.interval
    ends = figure(low.number, low.text, low.field), content.dash, figure(high.number, high.text, high.field)
    return tag("td", *ends, class_="num", data_row=low.source)


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
