"""Tables of pages: numbers on the right, names as they are, and a bar to scroll where a phone is too narrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from kshot.report.page.markup import figure, tag, text


class Column(NamedTuple):
    """A column: its heading, and whether it holds numbers."""

    heading: str
    numbers: bool = False


class TableRow(NamedTuple):
    """The cells of a row, and the row of ``summary.json`` that its numbers are from: ``KEY/results/INDEX``."""

    cells: Sequence[Markup | str]
    source: str | None = None
    kind: str | None = None
    """A class of the row, such as ``total``."""


def data_table(columns: Sequence[Column], rows: Iterable[TableRow], *, name: str) -> Markup:
    """Return a table within a box that scrolls; ``name`` says to those who cannot see it what it holds."""
    head = tag(
        "tr", *(tag("th", text(each.heading), scope="col", class_="num" if each.numbers else None) for each in columns)
    )
    return boxed_table(head, (_row(columns, row) for row in rows), name)


def boxed_table(head: Markup, body: Iterable[Markup], name: str) -> Markup:
    """Return rows as a table within a box that scrolls and that the keyboard reaches."""
    inner = tag("table", tag("thead", head), tag("tbody", *body))
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=name)


def _row(columns: Sequence[Column], row: TableRow) -> Markup:
    """Return a row; its first cell names it."""
    cells = [
        tag(
            "td" if at or column.numbers else "th",
            each if isinstance(each, Markup) else text(each),
            class_="num" if column.numbers else None,
            scope=None if at or column.numbers else "row",
        )
        for at, (column, each) in enumerate(zip(columns, row.cells, strict=True))
    ]
    return tag("tr", *cells, data_row=row.source, class_=row.kind)


def count(value: int | None, field: str | None = None) -> Markup:
    """Return a count: 100,000."""
    return figure(value, "" if value is None else f"{value:,}", field)
