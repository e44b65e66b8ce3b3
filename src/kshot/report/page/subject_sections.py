"""Subjects as sections of pages: their sentences, and each view as a chart with its table, or as a table alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from markupsafe import Markup

from kshot.report.page.charts import chart_grid, folded, sentences
from kshot.report.page.charts_curve import curve_chart
from kshot.report.page.charts_intervals import IntervalRow, interval_chart
from kshot.report.page.markup import Section, tag, together
from kshot.report.page.page_run import PageRun
from kshot.report.page.svg import SERIES
from kshot.report.page.tables import table_html
from kshot.report.subjects import Subject, every_subject
from kshot.report.view import Lines, TableView

_MAX_OPEN, _MAX_VIEWS = 6, 24


def subject_sections(runs: Sequence[PageRun]) -> Iterator[Section]:
    """Yield the section of each subject that the runs have."""
    for subject in every_subject():
        views = [(run, view) for run in runs for view in subject.views(run.record, run.address)]
        if views:
            yield _section(subject, runs, views)


def _section(subject: Subject, runs: Sequence[PageRun], views: Sequence[tuple[PageRun, TableView]]) -> Section:
    several = len(runs) > 1
    titled = [replace(view, title=f"{run.name}: {view.title}") if several else view for run, view in views]
    shown = [_shown(f"{subject.id}-{at}", view) for at, view in enumerate(titled[:_MAX_VIEWS], start=1)]
    said = sentences(line for run in runs for line in subject.sentences(run.record))
    parts = [chart_grid(shown[:_MAX_OPEN]), said]
    if rest := shown[_MAX_OPEN:]:
        parts.append(folded(f"{len(rest)} more charts", chart_grid(rest)))
    if len(views) > _MAX_VIEWS:
        parts.append(tag("p", f"… and {len(views) - _MAX_VIEWS:,} more {subject.id} in summary.json.", class_="soft"))
    notes = dict.fromkeys(note for _, view in views for note in view.notes)
    parts += [tag("p", note, class_="chart-note") for note in notes]
    return Section(subject.id, subject.title([view for _, view in views]), together(parts))


def _shown(id_: str, view: TableView) -> Markup:
    """Return a curve where the steps are numbers, a row for each figure where they are not, and else the table."""
    lines = view.chart
    if lines is None:
        return tag("figure", tag("figcaption", view.title), table_html(view, view.title), class_="chart wide", id=id_)
    if not lines.ordered:
        return interval_chart(id_, view.title, list(_rows(view, lines)), bounds=lines.bounds).html
    known = [
        replace(each, figures=[cell if cell and cell.number is not None else None for cell in each.figures])
        for each in lines.series
    ]
    return curve_chart(id_, view.title, replace(lines, series=known)).html


def _rows(view: TableView, lines: Lines) -> Iterator[IntervalRow]:
    counts, several = iter(view.cells("n")), len(lines.series) > 1
    for at, each in enumerate(lines.series):
        for step, figure in zip(lines.steps, each.figures, strict=True):
            if figure is not None:
                yield IntervalRow(step, figure, [next(counts)], each.name * several, at % SERIES)
