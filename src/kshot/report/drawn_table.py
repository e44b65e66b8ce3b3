"""Views of results on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.style import Style
from rich.table import Table
from rich.text import Text

from kshot.report.cells import cell, shortened
from kshot.report.curve import Curve
from kshot.report.view import Cell, Column, Content, Kind, Lines, TableView, Tone, cell_of
from kshot.runs.swept_rows import MAX_LINES

_LOW_COLOUR, _HIGH_COLOUR = (150, 40, 40), (30, 110, 60)
_MAX_CURVES = 6
"""Pictures on the screen; every view has a table."""
_NAME_ROOM, _VALUE_ROOM = 28, 40
_BAR = 31
"""Columns of the bars of intervals."""

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


def drawn(view: TableView, *, beside: str = " {}", style: str = "", header_style: str = "bold") -> Table:
    """Draw a view; names that are too wide are folded, and intervals are dim: ``beside`` writes that of a figure."""
    table = Table(box=None, pad_edge=False, header_style=header_style, style=style)
    for column in view.columns:
        table.add_column(
            cell(column.heading),
            justify=_SIDES.get(column.kind, "right"),
            style="dim" if column.kind == "interval" else STYLES[column.tone],
            overflow="fold",
            no_wrap=not column.wraps or column.kind == "interval",
            max_width=column.most,
            min_width=column.least,
        )
    for row in view.rows:
        table.add_row(*(_drawn(column, content, beside) for column, content in zip(view.columns, row, strict=True)))
    return table


_SIDES: dict[Kind, Literal["left", "center"]] = {"words": "left", "share": "center"}


def _drawn(column: Column, content: Content, beside: str) -> Text:
    found = cell_of(content)
    if column.kind == "share" and found.number is not None:
        return Text(f" {found.written} ", style=_shade(found.number / 100), justify="center")
    if column.kind == "interval":
        return cell(found.low_high)
    shown = cell(found.written, STYLES[found.tone])
    if column.kind == "figure" and found.interval:
        shown.append(beside.format(found.low_high), "dim")
    return shown


def _shade(share: float) -> Style:
    red, green, blue = (round(low + (high - low) * share) for low, high in zip(_LOW_COLOUR, _HIGH_COLOUR, strict=True))
    return Style(color="white", bgcolor=f"rgb({red},{green},{blue})")


# ---- views with charts ----


def drawn_views(views: Iterable[TableView]) -> Iterator[RenderableType]:
    """Draw each view with its title, the curve if its steps are numbers, the table, and what explains its marks."""
    for at, view in enumerate(views):
        lines, table = view.chart, drawn(view)
        parts: list[RenderableType] = [cell(_title(view), "bold", overflow="fold")]
        if lines is not None and lines.ordered and at < _MAX_CURVES and len(lines.steps) > 1:
            parts.append(Curve(replace(lines, series=lines.series[:MAX_LINES])))
        notes = [cell(line, "dim", overflow="fold") for line in view.notes]
        yield Group(*parts, table if lines is None else _LinesTable(view, lines), *notes, Text(""))


def _title(view: TableView) -> str:
    """Return the title of a view, with the number of samples if it has such a column."""
    sizes = sorted({int(each.number or 0) for each in view.cells("n")}) if "n" in view else []
    return f"{view.title}, n = {'–'.join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))}" if sizes else view.title


@dataclass(frozen=True, slots=True)
class _LinesTable:
    """The figures of lines: steps down, and lines across if there is room, else below each other."""

    view: TableView
    lines: Lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table that fits the width."""
        del console
        beside = _beside(self.view, self.lines)
        wide = max(map(cell_len, (beside.columns[0].heading, *map(str, (row[0] for row in beside.rows)))))
        wide += sum(max(cell_len(each.name), len("100.00  100.0–100.0")) + 4 for each in self.lines.series)
        fits = self.lines.ordered and wide <= options.max_width
        yield drawn(beside, beside="  {:>11}") if fits else drawn(_below(self.view, self.lines, options.max_width))


def _beside(view: TableView, lines: Lines) -> TableView:
    """Return the steps down and the lines across."""
    _, step, value, *_ = view.columns
    columns = [Column(step.heading, "number")]
    columns += [Column(each.name or value.heading, "figure", wraps=False) for each in lines.series]
    rows = [
        [shortened(step, _VALUE_ROOM), *(each.figures[at] for each in lines.series)]
        for at, step in enumerate(lines.steps)
    ]
    return TableView(columns, rows)


def _below(view: TableView, lines: Lines, width: int) -> TableView:
    """Return a line for each figure; where there is room, with a bar that shows its interval."""
    several = any(each.name for each in lines.series)
    known = [sum(figure is not None for figure in each.figures) for each in lines.series]
    starts = {
        place: shortened(each.name, _NAME_ROOM)
        for each, place in zip(lines.series, accumulate(known, initial=0), strict=False)
    }
    names = iter([starts.get(at, "") for at in range(len(view.rows))])
    shown = view.changed("line", lambda _: next(names))
    shown = shown.changed("step", lambda each: shortened(each.text, _VALUE_ROOM))
    if width >= _BAR + _NAME_ROOM * several + _VALUE_ROOM:
        ends = [end for each in view.cells("value") for end in each.ends] or [0.0, 1.0]
        bars = [_bar(each, min(ends), max(ends)) for each in view.cells("value")]
        shown = shown.joined(Column("", key="bar"), bars)
    return shown.only(*["line"] * several, "step", "value", "95 %", "bar")


def _bar(found: Cell, low: float, high: float) -> str:
    if found.number is None:
        return ""

    def column(value: float) -> int:
        share = (value - low) / (high - low) if high > low else 0.5
        return round(min(max(share, 0.0), 1.0) * (_BAR - 1))

    start, end = min(map(column, found.ends)), max(map(column, found.ends))
    line = [" "] * start + ["─"] * (end - start + 1)
    if end > start:
        line[start], line[end] = "├", "┤"
    line[column(found.number)] = "●"
    return "".join(line)
