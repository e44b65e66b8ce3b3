"""Sweeps: the few-shot curve of each dataset, and figures by every other option with several values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kshot.report.page.charts import Chart, chart_grid, folded, sentences
from kshot.report.page.charts_curve import curve_chart
from kshot.report.page.charts_intervals import IntervalRow, interval_chart
from kshot.report.page.markup import Section, tag, together
from kshot.report.page.numbers import mark_notes
from kshot.report.page.page_run import PageRun
from kshot.report.page.svg import SERIES
from kshot.report.sweep_verdicts import sweep_verdicts
from kshot.report.sweeps import sweep_view
from kshot.report.view import TableView
from kshot.runs.swept_rows import SHOTS, SweptFigures, swept_figures

_MAX_OPEN, _MAX_CHARTS = 6, 24


def sweep_section(runs: Sequence[PageRun]) -> Section | None:
    """Return the section on sweeps; None if no run has one."""
    swept = [(run, found) for run in runs for found in swept_figures(run.record.results, every_metric=True)]
    charts = [_chart(f"sweep-{at}", *each, named=len(runs) > 1) for at, each in enumerate(swept, start=1)]
    if not charts:
        return None
    said = sentences(line for run in runs for line in sweep_verdicts(run.record.comparisons))
    parts = [chart_grid(chart.html for chart in charts[:_MAX_OPEN]), said]
    if rest := charts[_MAX_OPEN:_MAX_CHARTS]:
        parts.append(folded(f"{len(rest)} more charts", chart_grid(chart.html for chart in rest)))
    if len(charts) > _MAX_CHARTS:
        parts.append(tag("p", f"… and {len(charts) - _MAX_CHARTS:,} more sweeps in summary.json.", class_="soft"))
    parts.append(mark_notes(row for _, found in swept for row in found.found))
    by_shots = all(found.across in SHOTS for _, found in swept)
    return Section("sweeps", "The few-shot curve" if by_shots else "Sweeps", together(parts))


def _chart(id_: str, run: PageRun, found: SweptFigures, *, named: bool) -> Chart:
    """Draw a curve where the values are numbers, else a row for each value."""
    view = sweep_view(found, run.address)
    title, lines = f"{run.name}: {view.title}" if named else view.title, view.chart
    if lines is None or not found.is_curve:
        bounds = () if lines is None else lines.bounds
        return interval_chart(id_, title, list(_rows(view)), bounds=bounds)
    known = [
        replace(each, figures=[cell if cell and cell.number is not None else None for cell in each.figures])
        for each in lines.series
    ]
    return curve_chart(id_, title, replace(lines, series=known))


def _rows(view: TableView) -> Iterator[IntervalRow]:
    names = list(dict.fromkeys(each.text for each in view.cells("line")))
    for line, step, figure, n in zip(*(view.cells(name) for name in ("line", "step", "value", "n")), strict=True):
        number = names.index(line.text) % SERIES
        yield IntervalRow(step.text, figure, [n], line.text if len(names) > 1 else "", number)
