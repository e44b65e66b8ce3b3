"""Sweeps: the curve of each, and one table with its figures and intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kshot.core.failed_parts import mark_legend
from kshot.core.records import ResultRow
from kshot.report.figure_cells import figure_cell
from kshot.report.subjects import Places, Subject
from kshot.report.sweep_verdicts import sweep_verdicts
from kshot.report.table import short_names
from kshot.report.view import Cell, Column, Content, Lines, Series, TableView, numbers
from kshot.runs.headline import finite
from kshot.runs.record import RunRecord
from kshot.runs.swept_rows import SHOTS, SweptFigures, shown_value, swept_figures

_HEADS = {
    **dict.fromkeys(SHOTS, "k"),
    "temperature": "temperature",
    "ranking_type": "ranking type",
    "retriever": "retriever",
    "instruction": "instruction",
}
"""What the column of an axis is called."""

_SHOTS_AXIS = "examples in the prompt (k)"


def sweep_view(found: SweptFigures, source: Places = lambda _: None) -> TableView:
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
    columns = [Column("", key="line", wraps=False, most=28)]
    columns.append(Column(_HEADS.get(found.across, found.across), key="step", wraps=False, most=40))
    columns += [Column(found.label, "number", key="value"), *numbers("95 %", "n")]
    bounds = _two(found.found[0].get("bounds"))
    across = _SHOTS_AXIS if found.across in SHOTS else found.across
    chart = Lines(found.labels, series, across, bounds, ordered=found.is_curve)
    return TableView(columns, rows, found.title, mark_legend(found.found), chart)


def _figure(row: ResultRow, best: int | None, source: str | None) -> Cell:
    return figure_cell(row, source=source, tone="strong" if id(row) == best else "")


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


def _views(record: RunRecord, places: Places) -> Iterator[TableView]:
    return (sweep_view(found, places) for found in swept_figures(record.results, every_metric=True))


def _section_title(views: Sequence[TableView]) -> str:
    by_shots = all(view.chart and view.chart.across == _SHOTS_AXIS for view in views)
    return "The few-shot curve" if by_shots else "Sweeps"


SWEEPS = Subject("sweeps", _section_title, _views, lambda record: sweep_verdicts(record.comparisons))
