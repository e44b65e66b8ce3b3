"""The figures of runs as a table of data: a row for each, with its interval and what it is of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat

from kshot.core.records import ResultRow
from kshot.core.visible import metric_label
from kshot.report.figure_cells import field_cell, figure_cell
from kshot.report.table import short_names
from kshot.report.view import Cell, Column, Content, TableView, numbers, words
from kshot.runs.swept_rows import task_label


def figures_view(
    rows: Sequence[ResultRow],
    *,
    systems: Sequence[str] | None = None,
    digits: Callable[[ResultRow], tuple[int, int] | None] = lambda _: (2, 1),
    sources: Sequence[str] | None = None,
) -> TableView:
    """Return a row for each figure; there is a column of failed samples if any failed.

    ``systems`` are the names of what the figures are of, as ``model_names`` returns them; ``sources`` are their places.
    """
    failed = any(row.get("failed") for row in rows)
    lines = []
    for row, system, source in zip(rows, systems or repeat(""), sources or repeat(None), strict=False):
        figure = figure_cell(row, digits(row), source=source)
        line: list[Content] = [task_label(row), *([system] if systems else []), metric_label(row)]
        line += [field_cell(row, "n", source=source) if "n" in row else None, figure, figure]
        line += [Cell(str(row.get("failed") or ""), row.get("failed") or 0)] if failed else []
        lines.append(line)
    columns = words("task", *["model"] * bool(systems), "metric")
    columns += numbers("n", "value", "95 %")
    return TableView([*columns, *[Column("failed", "number", tone="bad")] * failed], lines)


def model_names(rows: Sequence[ResultRow], among: Sequence[ResultRow] | None = None) -> list[str] | None:
    """Return the short name of the model of each row; None if there is only one in all rows that stand together."""
    names = short_names(dict.fromkeys(str(row.get("model", "")) for row in among or rows))
    return [names[str(row.get("model", ""))] for row in rows] if len(names) > 1 else None
