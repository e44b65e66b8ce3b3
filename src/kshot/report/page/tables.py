"""Tables of pages: numbers on the right, names as they are, and a bar to scroll where a phone is too narrow."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from kshot.report.page.markup import figure, tag, text, together
from kshot.report.view import Cell, Column, Content, TableView, cell_of

MAX_LISTED = 200
"""Rows of a table; ``summary.json`` has all."""


def table_html(view: TableView, name: str) -> Markup:
    """Return a table within a box that scrolls; ``name`` says to those who cannot see it what it holds.

    A text that is ``Markup`` stays as it is. The first cell of a row names it.
    """
    head = tag("tr", *(tag("th", column.heading, scope="col", class_=_class(column)) for column in view.columns))
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
    return together((boxed_table(head, body, name), more))


def boxed_table(head: Markup, body: Iterable[Markup], name: str) -> Markup:
    """Return rows as a table within a box that scrolls and that the keyboard reaches."""
    inner = tag("table", tag("thead", head), tag("tbody", *body))
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=name)


def _class(column: Column) -> str | None:
    return None if column.kind == "words" else "num"


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
