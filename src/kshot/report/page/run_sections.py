"""The sections on one run, or on several side by side, in their order; those of subjects and of settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from kshot.report.page.calibration_section import calibration_section
from kshot.report.page.charts import IntervalRow, chart_grid, folded, interval_chart, sentences, table_html
from kshot.report.page.charts_lines import curve_chart
from kshot.report.page.comparison_section import within_run
from kshot.report.page.course_section import course_section
from kshot.report.page.figure_sections import category_sections, draws_section, headline_section, shots_section
from kshot.report.page.lookup_section import lookup_section
from kshot.report.page.markup import Section, tag, text, together
from kshot.report.page.page_run import PageRun
from kshot.report.page.passages_section import passages_section
from kshot.report.page.svg import SERIES
from kshot.report.setting_table import settings_view
from kshot.report.subjects import Subject, every_subject
from kshot.report.view import Lines, TableView, words
from kshot.runs.setting_differences import setting_differences, shared_settings, unchanging_settings
from kshot.runs.spec_file import recorded_versions

if TYPE_CHECKING:
    from kshot.report.page.packed_samples import SamplesRead
    from kshot.runs.comparing import Comparison


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


_LONG = 200
"""Characters of a value from which on a reader opens it with a click."""


def settings_section(runs: Sequence[PageRun]) -> Section:
    """Return the settings of each run; those in which runs differ come first."""
    specs = [run.spec for run in runs]
    differing = setting_differences(specs) if len(runs) > 1 else []
    same = [*shared_settings(specs), *unchanging_settings(specs)]
    parts = []
    if differing or same:
        heads = [run.name for run in runs] if len(runs) > 1 else ["value"]
        parts.append(_table([*differing, *same], heads, "Settings", marked=len(differing)))
    parts.append(tag("p", _others(specs), class_="soft"))
    parts.append(_versions(runs, specs))
    return Section("settings", "Settings", together(parts))


def differing_settings(comparison: Comparison) -> list[Section]:
    """Return the section on what differs between the settings of compared runs; none if nothing does."""
    if not comparison.settings:
        return []
    table = _table(comparison.settings, [each["label"] for each in comparison.runs], "Settings that differ")
    return [Section("settings", "Different settings", table)]


def _table(settings: Sequence[Mapping[str, Any]], heads: Sequence[str], name: str, marked: int = 0) -> Markup:
    """Return settings as a table; the first ones, so many, are marked: runs differ in them."""
    view = settings_view(settings, heads)
    rows = [
        [_differs(str(setting)) if at < marked else setting, *(_value(str(value)) for value in values)]
        for at, (setting, *values) in enumerate(view.rows)
    ]
    return table_html(replace(view, rows=rows, marked=range(marked)), name)


def _differs(name: str) -> Markup:
    """Return the name of a setting with a mark that says that runs differ in it."""
    return together((text(name), " ", tag("span", "differs", class_="badge")))


def _value(shown: str) -> Markup:
    """Return a value as code; a long one folds."""
    code = tag("code", text(shown))
    return code if len(shown) <= _LONG else folded(f"{len(shown):,} characters", code)


def _others(specs: Sequence[Mapping[str, Any]]) -> str:
    known = all("options" in spec for spec in specs)  # results in memory know only what changes figures
    which = "Every other option" if known else "Every other option that can change a figure"
    return f"{which} has its default{' in all runs' if len(specs) > 1 else ''}."


def _versions(runs: Sequence[PageRun], specs: Sequence[Mapping[str, Any]]) -> Markup:
    """Return the versions of Python, kshot and packages that each run has used."""
    found = [recorded_versions(spec) for spec in specs]
    names = list(dict.fromkeys(name for each in found for name in each))
    if not names:
        return Markup("")
    columns = words("package", *(run.name if len(runs) > 1 else "version" for run in runs))
    rows = [[name, *(each.get(name, "–") for each in found)] for name in names]
    listed = ", ".join(f"{name} {found[0][name]}" for name in list(found[0])[:3]) if len(runs) == 1 else ""
    return folded(f"Versions{f': {listed}, …' if listed else ''}", table_html(TableView(columns, rows), "Versions"))


def run_sections(runs: Sequence[PageRun], read: Mapping[str, SamplesRead] | None = None) -> list[Section]:
    """Return the sections on runs; what does not apply to them has none.

    ``read`` has by key what a pass over the samples found; without it, there is no section that needs all samples.
    """
    found = [
        *subject_sections(runs),
        headline_section(runs),
        lookup_section(runs),
        passages_section(runs),
        within_run(runs),
        shots_section(runs),
        draws_section(runs),
        *category_sections(runs),
        None if read is None else calibration_section(runs, read),
        settings_section(runs),
        course_section(runs, read),
    ]
    return [section for section in found if section is not None]
