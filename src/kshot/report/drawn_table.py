"""Views of results on the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from kshot.report.cells import cell
from kshot.report.view import Column, Content, TableView, Tone, cell_of

STYLES: dict[Tone, str] = {
    "": "",
    "good": "bold green",
    "bad": "bold red",
    "warn": "magenta",
    "dim": "dim",
    "strong": "bold",
}
"""How a terminal shows what a cell tells beside its text."""


def drawn(view: TableView) -> Table:
    """Draw a view; names that are too wide are folded, and intervals are dim."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in view.columns:
        words = column.kind == "words"
        table.add_column(
            cell(column.heading),
            justify="left" if words else "right",
            style="dim" if column.kind == "interval" else STYLES[column.tone],
            overflow="fold" if column.wraps else "ellipsis",
            no_wrap=not column.wraps,
            max_width=column.most,
            min_width=column.least,
        )
    for row in view.rows:
        table.add_row(*(_drawn(column, content) for column, content in zip(view.columns, row, strict=True)))
    return table


def _drawn(column: Column, content: Content) -> Text:
    found = cell_of(content)
    return cell(found.between if column.kind == "interval" else found.written, STYLES[found.tone])
