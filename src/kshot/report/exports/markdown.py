"""The figures of runs as tables of GitHub's Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from kshot.report.exports.paper_tables import NUMBER_LABELS, Cell, FiguresTable, joined_name
from kshot.report.markdown_table import Markdown, markdown_table, markdown_text


def markdown_of(tables: Iterable[FiguresTable], caption: str | None = None) -> str:
    """Return the tables one after the other, each with its title and notes; ``caption`` stands before the first."""
    start = f"{markdown_text(caption)}\n\n" if caption else ""
    return start + "\n".join(_written(table) for table in tables)


def _written(table: FiguresTable) -> str:
    title = f"**{markdown_text(table.title)}**\n\n" if table.title else ""
    rows = [[*map(joined_name, labels), *map(_cell, cells)] for labels, cells in table.lines]
    right = {at for at, name in enumerate(table.labels) if name in NUMBER_LABELS}
    right |= set(range(len(table.labels), len(table.labels) + len(table.columns)))
    notes = "".join(f"{markdown_text(note)}\n" for note in table.notes)
    names = [*table.labels, *map(joined_name, table.columns)]
    return f"{title}{markdown_table(names, rows, right)}" + (f"\n{notes}" if notes else "")


def _cell(cell: Cell | None) -> Markdown | None:
    if cell is None:
        return None
    value = f"**{cell.value}**" if cell.ahead else cell.value
    return Markdown(f"{value} [{', '.join(cell.interval)}]" if cell.interval else value)
