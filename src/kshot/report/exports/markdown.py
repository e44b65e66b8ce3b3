"""Views of results as tables of GitHub's Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from kshot.report.markdown_table import Markdown, markdown_table, markdown_text
from kshot.report.view import Cell, Column, Content, TableView, cell_of


def markdown_of(tables: Iterable[TableView], caption: str | None = None) -> str:
    """Return the tables one after the other, each with its title and notes; ``caption`` stands before the first."""
    start = f"{markdown_text(caption)}\n\n" if caption else ""
    return start + "\n".join(map(_written, tables))


def _written(table: TableView) -> str:
    title = f"**{markdown_text(table.title)}**\n\n" if table.title else ""
    rows = [[_cell(*each) for each in zip(table.columns, row, strict=True)] for row in table.rows]
    right = {at for at, column in enumerate(table.columns) if column.kind != "words"}
    notes = "".join(f"{markdown_text(note)}\n" for note in table.notes)
    return f"{title}{markdown_table([each.heading for each in table.columns], rows, right)}" + (
        f"\n{notes}" if notes else ""
    )


def _cell(column: Column, content: Content) -> str | None:
    if column.kind != "figure":
        return cell_of(content).written
    return _figure(content) if isinstance(content, Cell) else None


def _figure(cell: Cell) -> Markdown:
    value = f"**{cell.written}**" if cell.tone == "strong" else cell.written
    return Markdown(f"{value} [{', '.join(end.text for end in cell.interval)}]" if cell.interval else value)
