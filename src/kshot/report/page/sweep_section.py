"""Sweeps: the few-shot curve of each dataset, and figures by every other option with several values."""

from __future__ import annotations

from collections.abc import Sequence

from kshot.core.records import ResultRow
from kshot.report.page.charts import Chart, chart_grid, folded, sentences
from kshot.report.page.charts_curve import curve_chart
from kshot.report.page.charts_intervals import IntervalRow, interval_chart
from kshot.report.page.charts_lines import Series
from kshot.report.page.markup import Section, tag, together
from kshot.report.page.numbers import estimate, field_number, mark_notes
from kshot.report.page.page_run import PageRun
from kshot.report.page.svg import SERIES
from kshot.report.sweep_verdicts import sweep_verdicts
from kshot.report.sweeps import AXIS_TITLES, line_names
from kshot.report.view import Cell
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
    title = f"{run.name}: {found.title}" if named else found.title
    names, bounds = line_names(found), tuple(found.found[0].get("bounds") or ())
    if not found.is_curve:
        return interval_chart(id_, title, _rows(run, found, names), bounds=bounds)
    series = [
        Series(name, [_estimate(run, row) for row in line.rows]) for name, line in zip(names, found.lines, strict=True)
    ]
    across = AXIS_TITLES.get(found.across, found.across)
    return curve_chart(id_, title, found.labels, series, across=across, bounds=bounds)


def _estimate(run: PageRun, row: ResultRow | None) -> Cell | None:
    return None if row is None or row["value"] is None else estimate(run, row)


def _rows(run: PageRun, found: SweptFigures, names: Sequence[str]) -> list[IntervalRow]:
    several = len(names) > 1
    return [
        IntervalRow(
            label,
            estimate(run, row),
            [field_number(run, row, "n")],
            group=name if several else "",
            series=at % SERIES if several else 0,
        )
        for at, (name, line) in enumerate(zip(names, found.lines, strict=True))
        for label, row in zip(found.labels, line.rows, strict=True)
        if row is not None
    ]
