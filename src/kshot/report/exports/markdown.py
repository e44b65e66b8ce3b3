"""The figures of runs as tables of GitHub's Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from kshot.report.exports.figures import Cell, FiguresTable
from kshot.report.markdown_table import Markdown, markdown_table, markdown_text

_NUMBERS = {"n", "failed", "p"}
"""Label columns that stand to the right."""


def markdown_of(tables: Iterable[FiguresTable]) -> str:
    """Return the tables one after the other, each with its title and notes."""
    return "\n".join(_written(table) for table in tables)


def _written(table: FiguresTable) -> str:
    title = f"**{markdown_text(table.title)}**\n\n" if table.title else ""
    rows = [[*labels, *map(_cell, cells)] for labels, cells in table.lines]
    right = {at for at, name in enumerate(table.labels) if name in _NUMBERS}
    right |= set(range(len(table.labels), len(table.labels) + len(table.columns)))
    notes = "".join(f"{markdown_text(note)}\n" for note in table.notes)
    return f"{title}{markdown_table([*table.labels, *table.columns], rows, right)}" + (f"\n{notes}" if notes else "")


def _cell(cell: Cell | None) -> Markdown | None:
    if cell is None:
        return None
    value = f"**{cell.value}**" if cell.ahead else cell.value
    return Markdown(f"{value} [{', '.join(cell.interval)}]" if cell.interval else value)
