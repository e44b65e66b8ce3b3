"""What all charts have: a figure with a title, the picture, a legend or a note, and the table behind it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from markupsafe import Markup

from kshot.report.page.markup import figure, tag, together
from kshot.report.page.numbers import Estimate, Number
from kshot.report.page.tables import boxed_table

Cell: TypeAlias = Markup | str | Number | Estimate | None
"""A cell of a table. An estimate stands there as its interval: its value has a cell of its own."""

_VALUES = re.compile(r"(?<=\d) (?=%)|(?<=\bp) (?=[<\d])|(?<=\bp <) (?=\d)|(?<=\bk) (?==)|(?<=\bk =) (?=\d)")
"""Blanks within a value, at which no line is broken: 95 %, p < 0.0001, k = 5."""


MAX_LISTED = 200
"""Rows of a table; ``summary.json`` has all."""


@dataclass(frozen=True, slots=True)
class DataTable:
    """The numbers of a chart: the heads of its columns, and its rows."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def html(self, name: str) -> Markup:
        """Return the table within a box that scrolls; numbers stand to the right."""
        numeric = [all(_is_number(row[at]) for row in self.rows) for at in range(len(self.heads))]
        heads = [
            tag("th", head, scope="col", class_="num" if right else None)
            for head, right in zip(self.heads, numeric, strict=True)
        ]
        shown, left = self.rows[:MAX_LISTED], len(self.rows) - MAX_LISTED
        body = [tag("tr", *(_cell(cell, first=not at) for at, cell in enumerate(row))) for row in shown]
        more = tag("p", f"… and {left:,} more in summary.json", class_="chart-note") if left > 0 else ""
        return together((boxed_table(tag("tr", *heads), body, name), more))


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture and what stands around it. ``id`` is unique on its page; ``wide`` takes the whole width of a grid.

    One that is ``tall`` has two others beside it, one below the other, where a grid has two columns.

    A picture that ``scrolls`` keeps its size on a narrow screen; the keyboard can reach it.
    """

    id: str
    title: str
    picture: Markup
    table: DataTable
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
        numbers = self.table.html(f"{self.title}: the numbers")
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


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, Number | Estimate) or cell is None


def _cell(cell: Cell, *, first: bool) -> Markup:
    """Return a cell; the first of a row names it."""
    if isinstance(cell, Number):
        return tag("td", figure(cell.value, cell.written, cell.field), class_="num", data_row=cell.row)
    if isinstance(cell, Estimate):
        if cell.interval is None:
            return tag("td", class_="num")
        low, high = cell.interval
        ends = figure(low.value, low.written, low.field), cell.dash, figure(high.value, high.written, high.field)
        return tag("td", *ends, class_="num", data_row=low.row)
    return tag("th", cell, scope="row") if first and cell else tag("td", "" if cell is None else cell)
