"""Sweeps: the curve of each, and one table with its figures and intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from kshot.core.failed_parts import mark_legend
from kshot.core.records import ResultRow
from kshot.report.cells import cell, shortened
from kshot.report.curve import Curve
from kshot.report.drawn_table import drawn
from kshot.report.figure_cells import figure_cell
from kshot.report.table import short_names
from kshot.report.view import Cell, Column, Content, Lines, Series, TableView, numbers
from kshot.runs.headline import finite
from kshot.runs.swept_rows import MAX_LINES, SHOTS, SweptFigures, shown_value, swept_figures

_MAX_CURVES = 6
"""Pictures on the screen; every sweep has a table."""
_NAME_ROOM, _VALUE_ROOM = 28, 40
_BAR = 31
"""Columns of the bars of intervals."""

_HEADS = {
    **dict.fromkeys(SHOTS, "k"),
    "temperature": "temperature",
    "ranking_type": "ranking type",
    "retriever": "retriever",
    "instruction": "instruction",
}
"""What the column of an axis is called."""

_AXIS_TITLES = dict.fromkeys(SHOTS, "examples in the prompt (k)")


def sweep_view(found: SweptFigures, source: Callable[[ResultRow], str | None] = lambda _: None) -> TableView:
    """Return a row for each figure of a sweep, line by line, and the lines as a chart; the best figure stands out."""
    best, names = _best(found), _line_names(found)
    series = [
        Series(name, [None if row is None else _figure(row, best, source(row)) for row in line.rows])
        for name, line in zip(names, found.lines, strict=True)
    ]
    rows: list[list[Content]] = [
        [name, label, figure, figure, Cell(f"{row['n']:,}", row["n"], source(row), "n")]
        for (name, line), each in zip(zip(names, found.lines, strict=True), series, strict=True)
        for label, row, figure in zip(found.labels, line.rows, each.figures, strict=True)
        if row is not None
    ]
    columns = [Column("", key="line", wraps=False, most=_NAME_ROOM)]
    columns.append(Column(_HEADS.get(found.across, found.across), key="step", wraps=False, most=_VALUE_ROOM))
    columns += [Column(found.label, "number", key="value"), *numbers("95 %", "n")]
    bounds = _two(found.found[0].get("bounds"))
    chart = Lines(found.labels, series, _AXIS_TITLES.get(found.across, found.across), bounds)
    return TableView(columns, rows, found.title, mark_legend(found.found), chart)


def _figure(row: ResultRow, best: int | None, source: str | None) -> Cell:
    return figure_cell(row, source=source, tone="strong" if id(row) == best else "")


def sweep_tables(rows: Sequence[ResultRow]) -> Iterator[RenderableType]:
    """Draw each sweep of a run by each metric: its title, the curve if its values are numbers, and the table."""
    for at, found in enumerate(swept_figures(rows, every_metric=True)):
        view = sweep_view(found)
        parts: list[RenderableType] = [cell(_title(found), "bold", overflow="fold")]
        if view.chart and found.is_curve and at < _MAX_CURVES and len(found.steps) > 1:
            parts.append(Curve(replace(view.chart, series=view.chart.series[:MAX_LINES])))
        legend = [cell(line, "dim", overflow="fold") for line in view.notes]
        yield Group(*parts, _SweepTable(view, is_curve=found.is_curve), *legend, Text(""))


def _title(found: SweptFigures) -> str:
    sizes = sorted({int(row["n"]) for row in found.found})
    counted = f"{sizes[0]}–{sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]}"
    return f"{found.title}, n = {counted}"


def _line_names(found: SweptFigures) -> list[str]:
    """Return the name of each line; those of models are as short as they can be."""
    specs = [str(value) for line in found.lines for name, value in line.parts if name == "model"]
    models = short_names(dict.fromkeys(specs))
    return [
        " · ".join(models[str(value)] if name == "model" else shown_value(name, value) for name, value in line.parts)
        for line in found.lines
    ]


def _two(ends: Any) -> tuple[float | None, ...]:
    """Return the two ends of a scale; a file of a stranger may have anything there."""
    found = [finite(end) for end in ends] if isinstance(ends, (list, tuple)) else []
    return tuple(found) if len(found) == len(("low", "high")) else ()


def _best(found: SweptFigures) -> int | None:
    """Return the id of the row with the best value."""
    known = [(value, row) for row in found.found if (value := finite(row["value"])) is not None]
    upwards = found.found[0].get("higher_is_better") is not False
    top = (max if upwards else min)(known, key=lambda each: each[0], default=None)
    return None if top is None else id(top[1])


@dataclass(frozen=True, slots=True)
class _SweepTable:
    """The figures of a sweep: values down, and lines across if there is room, else below each other."""

    view: TableView
    is_curve: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table that fits the width."""
        del console
        beside = _beside(self.view)
        wide = max(map(cell_len, (beside.columns[0].heading, *map(str, (row[0] for row in beside.rows)))))
        names = [each.name for each in self.view.chart.series] if self.view.chart else []
        wide += sum(max(cell_len(name), len("100.00  100.0–100.0")) + 4 for name in names)
        fits = self.is_curve and wide <= options.max_width
        yield drawn(beside, beside="  {:>11}") if fits else drawn(_below(self.view, options.max_width))


def _beside(view: TableView) -> TableView:
    """Return the values down and the lines across."""
    lines, label = view.chart or Lines((), (), ""), view.columns[2].heading
    columns = [Column(view.columns[1].heading, "number")]
    columns += [Column(each.name or label, "figure", wraps=False) for each in lines.series]
    rows = [
        [shortened(step, _VALUE_ROOM), *(each.figures[at] for each in lines.series)]
        for at, step in enumerate(lines.steps)
    ]
    return TableView(columns, rows)


def _below(view: TableView, width: int) -> TableView:
    """Return a line for each figure; where there is room, with a bar that shows its interval."""
    several = any(each.text for each in view.cells("line"))
    shown = view.once("line").changed("line", lambda each: shortened(each.text, _NAME_ROOM))
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
