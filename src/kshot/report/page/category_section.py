"""Where models are weak: the figures by category and by subset, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from kshot.core.errors import UsageError
from kshot.core.records import ResultRow
from kshot.report.breakdown import Breakdown, By, FigureScale, breakdown, figure_scale, sorting, whole_of
from kshot.report.page.charts import Chart, chart_grid
from kshot.report.page.charts_intervals import IntervalRow, interval_chart
from kshot.report.page.markup import Section, tag, together
from kshot.report.page.numbers import estimate, field_number, mark_notes
from kshot.report.page.page_run import PageRun, system_names

_MAX_CHARTS = 4
"""Charts, one for each metric."""
_TITLES: dict[By, tuple[str, str]] = {
    "category": ("categories", "By category"),
    "subset": ("subsets", "By subset"),
}


class _PartFigure(NamedTuple):
    """A figure of a part of a task, and its run."""

    run: PageRun
    row: ResultRow


def category_sections(runs: Sequence[PageRun]) -> list[Section]:
    """Return the sections by category and by subset, of those that the runs have."""
    return [section for by in _TITLES if (section := _section(runs, by)) is not None]


def _section(runs: Sequence[PageRun], by: By) -> Section | None:
    id_, title = _TITLES[by]
    parts: list[_PartFigure] = []
    told: dict[str, None] = {"The worst come first.": None}
    for run in runs:
        rows = [row for row in run.record.results if row.get("kind") != "lookup"]
        with suppress(UsageError):  # the run has no such figures
            found = breakdown(rows, by)
            parts += [_PartFigure(run, row) for row in found.every]
            told |= dict.fromkeys(_told(found, by))
    if not parts:
        return None
    scales: dict[FigureScale, list[_PartFigure]] = {}
    for part in parts:
        scales.setdefault(figure_scale(part.row), []).append(part)
    charts = [
        _chart(f"{id_}-{at}", _together(those, by, runs), by, title, runs).html
        for at, those in enumerate(list(scales.values())[:_MAX_CHARTS], start=1)
    ]
    said, left = tag("p", " ".join(told), class_="soft"), len(scales) - _MAX_CHARTS
    others = f"… and {left:,} more metric{'s' if left > 1 else ''} in summary.json: kshot show --by {by} --metric NAME"
    more = [tag("p", others, class_="chart-note")] if left > 0 else []
    return Section(id_, title, together((said, chart_grid(charts), mark_notes(part.row for part in parts), *more)))


def _together(parts: Sequence[_PartFigure], by: By, runs: Sequence[PageRun]) -> list[_PartFigure]:
    """Return the figures with those of one part beside each other, in the order in which its first one comes."""
    held: dict[tuple[str, str], list[_PartFigure]] = {}
    for part in parts:
        held.setdefault((str(part.row[by]), whole_of(part.row, by)), []).append(part)
    order = {key: at for at, key in enumerate(system_names(runs))}
    return [
        part
        for those in held.values()
        for part in sorted(those, key=lambda part: order[part.run.key, str(part.row.get("model", ""))])
    ]


def _told(found: Breakdown, by: By) -> Iterator[str]:
    """Say how the figures are sorted, and which are missing."""
    yield from (f"{line[0].upper()}{line[1:].rstrip('.')}." for line in sorting(found))
    if empty := sum(row.get("value") is None for row in found.every):
        many = f"{empty:,} {_TITLES[by][0]}" if empty > 1 else f"1 {by}"
        come = "come" if empty > 1 else "comes"
        yield f"{many} without a figure, because every sample failed, {come} last."


def _chart(id_: str, parts: Sequence[_PartFigure], by: By, title: str, runs: Sequence[PageRun]) -> Chart:
    names = system_names(runs)
    drawn = {(part.run.key, str(part.row.get("model", ""))) for part in parts}
    systems = {key: at for at, key in enumerate(key for key in names if key in drawn)}
    wholes = dict.fromkeys(whole_of(part.row, by) for part in parts)
    metric, upwards, bounds = figure_scale(parts[0].row)
    failed = any(part.row.get("failed") for part in parts)
    fields = ("n", "failed") if failed else ("n",)
    rows = []
    for part in parts:
        key = part.run.key, str(part.row.get("model", ""))
        name = str(part.row[by]) + (f" · {whole_of(part.row, by)}" if len(wholes) > 1 else "")
        shown, group = (names[key], name) if len(systems) > 1 else (name, "")
        counts = [field_number(part.run, part.row, each) for each in fields]
        rows.append(IntervalRow(shown, estimate(part.run, part.row), counts, group, systems[key]))
    heads = ("value", "95 %", *fields)
    whole = f" · {next(iter(wholes))}" if len(wholes) == 1 and next(iter(wholes)) else ""
    told = f"{metric} {title.lower()}{whole}{'' if upwards else ', lower is better'}"
    return interval_chart(id_, told, rows, heads=heads, bounds=bounds)
