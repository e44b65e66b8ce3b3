"""Numbers on pages: as people read them, with their exact values and their places in ``summary.json``."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from kshot.core.failed_parts import mark_legend
from kshot.core.records import ResultRow
from kshot.report.figures import field_cell, figure_cell
from kshot.report.page.markup import figure, tag, together
from kshot.report.page.page_run import PageRun
from kshot.report.view import Cell


def estimate(
    run: PageRun, row: ResultRow, digits: tuple[int, int] | None = None, name: str = "value", sign: str = ""
) -> Cell:
    """Return a figure of a run with its interval and its place: see ``figure_cell``."""
    return figure_cell(row, digits, name, sign, source=run.address(row))


def field_number(run: PageRun, row: ResultRow, name: str, digits: int | None = None) -> Cell:
    """Return a field of a row with its place: see ``field_cell``."""
    return field_cell(row, name, digits, source=run.address(row))


def mark_notes(rows: Iterable[ResultRow]) -> Markup:
    """Return what the marks of these figures mean, to stand below a chart or a table."""
    return together(tag("p", line, class_="chart-note") for line in mark_legend(rows))


def number_html(found: Cell) -> Markup:
    """Return a number within HTML, with its place."""
    shown = figure(found.number, found.written, found.field)
    return shown if found.source is None else tag("span", shown, data_row=found.source)


def interval_html(found: Cell) -> Markup:
    """Return an interval within HTML, or nothing."""
    if found.interval is None:
        return Markup("")
    low, high = found.interval
    return together((number_html(low), found.dash, number_html(high)))
