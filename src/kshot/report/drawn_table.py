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
    "poor": "red",
    "warn": "magenta",
    "dim": "dim",
    "strong": "bold",
}
"""How a terminal shows what a cell tells beside its text."""


def drawn(view: TableView, *, beside: str = " {}") -> Table:
    """Draw a view; names that are too wide are folded, and intervals are dim: ``beside`` writes that of a figure."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in view.columns:
        table.add_column(
            cell(column.heading),
            justify="left" if column.kind == "words" else "right",
            style="dim" if column.kind == "interval" else STYLES[column.tone],
            overflow="fold",
            no_wrap=not column.wraps or column.kind == "interval",
            max_width=column.most,
            min_width=column.least,
        )
    for row in view.rows:
        table.add_row(*(_drawn(column, content, beside) for column, content in zip(view.columns, row, strict=True)))
    return table


def _drawn(column: Column, content: Content, beside: str) -> Text:
    found = cell_of(content)
    if column.kind == "interval":
        return cell(found.between)
    shown = cell(found.written, STYLES[found.tone])
    if column.kind == "figure" and found.interval:
        shown.append(beside.format(found.between), "dim")
    return shown
