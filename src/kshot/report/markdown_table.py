"""Tables and lines of Markdown as GitHub reads it; names of models, tasks and files are texts in it, never markup."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from rich.cells import cell_len

from kshot.core.visible import one_line
from kshot.report.view import Cell, Column, Content, TableView, cell_of

_MAX_PADDING = 60
"""Cells are padded to the width of their column, up to this many characters: the source is readable too."""

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "$": "&#36;"}
"""HTML, columns and formulas. No renderer takes an entity for a mark."""

_MARKS = re.compile(
    r"[&<>|$]"
    r"|[\\`*~\[\]]"
    r"|(?<![^\W_])_|_(?![^\W_])"  # between letters it is no mark
    r"|:(?=//)|(?<=www)\."  # what would become a link
    r"|^(?:[-+](?=[\s-]|$)|[#=]|\d+(?=[.)](?:\s|$)))"  # what begins a list, a heading or a line
)
_NAMES = re.compile(r"(?<!\w)@(?=\w)|:(?=(?:[0-9]*[a-z_+-][a-z0-9_+-]*|100|1234):)")
"""What GitHub takes for a person or for an emoji after it has read the Markdown, so that no escape helps."""


class Markdown(str):
    """A text that is Markdown already."""

    __slots__ = ()


def markdown_text(text: object) -> Markdown:
    """Return a foreign text on one line, so that a reader of the rendered page sees exactly this text."""
    if isinstance(text, Markdown):
        return text
    marked = _MARKS.sub(_escaped, one_line(text).strip())
    return Markdown(_NAMES.sub(r"\g<0><!-- -->", marked))


def _escaped(found: re.Match[str]) -> str:
    mark = found.group()
    if mark[0].isdigit():  # the point after a number that begins a line
        return f"{mark}<!-- -->"
    return _ENTITIES.get(mark, f"\\{mark}")


def markdown_table(header: Sequence[object], rows: Iterable[Sequence[object]], numbers: Collection[int] = ()) -> str:
    """Return a table that ends with a line break; ``numbers`` are the columns (from 0) that stand to the right.

    Cells that are ``Markdown`` stay as they are, ``None`` is an empty cell, and all others are texts.
    """
    lines = [["" if value is None else markdown_text(value) for value in line] for line in (header, *rows)]
    widths = [max(3, *map(cell_len, column)) for column in zip(*lines, strict=True)]
    widths = [min(width, _MAX_PADDING) for width in widths]
    rule = [f"{'-' * (width - 1)}:" if at in numbers else "-" * width for at, width in enumerate(widths)]
    padded = [
        [_padded(text, width, right=at in numbers) for at, (text, width) in enumerate(zip(line, widths, strict=True))]
        for line in lines
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in (padded[0], rule, *padded[1:]))


def _padded(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


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
    if not isinstance(content, Cell):
        return None
    value = f"**{content.written}**" if content.tone == "strong" else content.written
    return Markdown(f"{value} [{', '.join(end.text for end in content.interval)}]" if content.interval else value)
