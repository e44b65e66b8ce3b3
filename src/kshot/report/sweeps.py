"""Sweeps on the screen: the curve of each, and one table with its figures and intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from kshot.core.failed_parts import failure_mark, mark_legend
from kshot.core.records import ResultRow
from kshot.report.cells import cell, shortened
from kshot.report.curve import Curve, CurvePoint, CurveSeries
from kshot.report.figure_cells import number
from kshot.report.table import short_names
from kshot.runs.headline import finite
from kshot.runs.swept_rows import MAX_LINES, SHOTS, SweptFigures, shown_value, swept_figures

_MAX_CURVES = 6
"""Pictures on the screen; every sweep has a table."""
_NAME_ROOM, _VALUE_ROOM = 28, 40
_BAR = 31
"""Columns of the bars of intervals."""

HEADS = {
    **dict.fromkeys(SHOTS, "k"),
    "temperature": "temperature",
    "ranking_type": "ranking type",
    "retriever": "retriever",
    "instruction": "instruction",
}
"""What the column of an axis is called."""

AXIS_TITLES = dict.fromkeys(SHOTS, "examples in the prompt (k)")


def sweep_tables(rows: Sequence[ResultRow]) -> Iterator[RenderableType]:
    """Draw each sweep of a run by each metric: its title, the curve if its values are numbers, and the table."""
    for at, found in enumerate(swept_figures(rows, every_metric=True)):
        names = line_names(found)
        parts: list[RenderableType] = [cell(_title(found), "bold", overflow="fold")]
        if found.is_curve and at < _MAX_CURVES and len(found.steps) > 1:
            parts.append(_curve(found, names))
        legend = [cell(line, "dim", overflow="fold") for line in mark_legend(found.found)]
        yield Group(*parts, SweepTable(found, names), *legend, Text(""))


def _title(found: SweptFigures) -> str:
    sizes = sorted({int(row["n"]) for row in found.found})
    counted = f"{sizes[0]}–{sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]}"
    return f"{found.title}, n = {counted}"


def line_names(found: SweptFigures) -> list[str]:
    """Return the name of each line; those of models are as short as they can be."""
    specs = [str(value) for line in found.lines for name, value in line.parts if name == "model"]
    models = short_names(dict.fromkeys(specs))
    return [
        " · ".join(models[str(value)] if name == "model" else shown_value(name, value) for name, value in line.parts)
        for line in found.lines
    ]


def _curve(found: SweptFigures, names: Sequence[str]) -> Curve:
    series = [
        CurveSeries(name, [_point(row) for row in line.rows])
        for name, line in list(zip(names, found.lines, strict=True))[:MAX_LINES]
    ]
    low, high = _two(found.found[0].get("bounds"))
    return Curve(found.labels, series, AXIS_TITLES.get(found.across, found.across), (low, high))


def _point(row: ResultRow | None) -> CurvePoint | None:
    value = None if row is None else finite(row["value"])
    if row is None or value is None:
        return None
    low, high = _two(row.get("ci95"))
    return CurvePoint(value, None if low is None or high is None else (low, high))


def _two(ends: Any) -> tuple[float | None, float | None]:
    """Return the two ends of an interval or a scale; a file of a stranger may have anything there."""
    found = [finite(end) for end in ends] if isinstance(ends, (list, tuple)) else []
    return (found[0], found[1]) if len(found) == len(("low", "high")) else (None, None)


@dataclass(frozen=True, slots=True)
class SweepTable:
    """The figures of a sweep: values down, and lines across if there is room, else below each other."""

    found: SweptFigures
    names: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table that fits the width."""
        del console
        wide = self._across()
        if not self.found.is_curve or wide > options.max_width:
            yield self._below(options.max_width)
        else:
            yield self._beside()

    def _across(self) -> int:
        first = max(len(HEADS.get(self.found.across, self.found.across)), *(cell_len(each) for each in self._steps()))
        return first + sum(max(cell_len(name), len("100.00  100.0–100.0")) + 4 for name in self.names)

    def _steps(self) -> list[str]:
        return [shortened(label, _VALUE_ROOM) for label in self.found.labels]

    def _beside(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 1))
        table.add_column(cell(HEADS.get(self.found.across, self.found.across)), justify="right")
        for name in self.names:
            table.add_column(cell(name or self.found.label), justify="right", no_wrap=True)
        best = _best(self.found)
        for at, step in enumerate(self._steps()):
            table.add_row(cell(step), *(_figure(line.rows[at], best) for line in self.found.lines))
        return table

    def _below(self, width: int) -> Table:
        """Return a line for each figure; where there is room, with a bar that shows its interval."""
        several = len(self.names) > 1 or bool(self.names[0])
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 1))
        if several:
            table.add_column(max_width=_NAME_ROOM, no_wrap=True)
        table.add_column(cell(HEADS.get(self.found.across, self.found.across)), no_wrap=True, max_width=_VALUE_ROOM)
        table.add_column(cell(self.found.label), justify="right")
        table.add_column("95 %", justify="right", style="dim", no_wrap=True)
        drawn = width >= _BAR + _NAME_ROOM * several + _VALUE_ROOM
        if drawn:
            table.add_column("")
        best, ends = _best(self.found), _scale(self.found)
        for name, line in zip(self.names, self.found.lines, strict=True):
            for at, (step, row) in enumerate(zip(self._steps(), line.rows, strict=True)):
                if row is not None:
                    cells = [cell("" if at else shortened(name, _NAME_ROOM))] if several else []
                    cells += [cell(step), _value(row, best), cell(_interval(row))]
                    table.add_row(*cells, *([cell(_bar(row, ends))] if drawn else []))
        return table


def _figure(row: ResultRow | None, best: int | None) -> Text:
    if row is None:
        return cell("")
    interval = _interval(row)
    return _value(row, best).append(f"  {interval:>11}" if interval else "", "dim")


def _value(row: ResultRow, best: int | None) -> Text:
    value = finite(row["value"])
    shown = ("–" if value is None else number(value, 2)) + failure_mark(row)
    return cell(shown, "bold" if id(row) == best else "")


def _interval(row: ResultRow) -> str:
    return "" if row.get("ci95") is None else "–".join(number(end, 1) for end in row["ci95"])


def _best(found: SweptFigures) -> int | None:
    """Return the id of the row with the best value."""
    known = [(value, row) for row in found.found if (value := finite(row["value"])) is not None]
    upwards = found.found[0].get("higher_is_better") is not False
    top = (max if upwards else min)(known, key=lambda each: each[0], default=None)
    return None if top is None else id(top[1])


def _scale(found: SweptFigures) -> tuple[float, float]:
    """Return the ends of what the bars show."""
    points = [point for row in found.found if (point := _point(row)) is not None]
    ends = [end for point in points for end in (point.ends or (point.value,))] or [0.0, 1.0]
    return min(ends), max(ends)


def _bar(row: ResultRow, ends: tuple[float, float]) -> str:
    point = _point(row)
    if point is None:
        return ""
    low, high = ends

    def column(value: float) -> int:
        share = (value - low) / (high - low) if high > low else 0.5
        return round(min(max(share, 0.0), 1.0) * (_BAR - 1))

    start, end = (column(each) for each in (point.ends or (point.value, point.value)))
    line = [" "] * start + ["─"] * (end - start + 1)
    if end > start:
        line[start], line[end] = "├", "┤"
    line[column(point.value)] = "●"
    return "".join(line)
