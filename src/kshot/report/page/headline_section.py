"""The main figures of runs: each task by each model, with its interval, and who is ahead of whom."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from markupsafe import Markup

from kshot.core.records import ResultRow
from kshot.report.breakdown import FigureScale, figure_scale
from kshot.report.figures import figures_view
from kshot.report.page.charts import Chart, chart_grid, folded, sentences
from kshot.report.page.charts_intervals import IntervalRow, interval_chart
from kshot.report.page.charts_rows import MAX_DRAWN
from kshot.report.page.markup import Section, tag, together
from kshot.report.page.numbers import estimate, field_number, mark_notes
from kshot.report.page.page_run import PageRun, system_names
from kshot.report.page.svg import SERIES
from kshot.report.page.tables import table_html
from kshot.report.verdicts import model_verdicts
from kshot.runs.headline import failed_samples, finite, headline_results
from kshot.runs.swept_rows import SAME, SWEEP, is_swept

_MAX_CHARTS = 4
"""Charts that are open; the others fold."""

_MAX_ROWS = 4 * MAX_DRAWN
"""Rows in all charts: what is beyond them stands in the table of more figures."""


class _Figure(NamedTuple):
    """A row of a summary, and the run that it is of."""

    run: PageRun
    row: ResultRow

    @property
    def system(self) -> tuple[str, str]:
        """What the names of systems are found by: the run and the model."""
        return self.run.key, str(self.row.get("model", ""))


def headline_section(runs: Sequence[PageRun]) -> Section | None:
    """Return the section on the main figures; None if no task has a figure of its own, as in token lookup."""
    main = [_Figure(run, row) for run in runs for row in _main(run)]
    if not main:
        return None
    main.sort(key=lambda found: "average" not in found.row)  # it is stable: the rest keeps its order
    names = system_names(runs)
    by_scale: dict[FigureScale, list[_Figure]] = {}
    for found in main:
        by_scale.setdefault(figure_scale(found.row), []).append(found)
    every = [each for at, found in enumerate(by_scale.values(), 1) for each in _in_charts(f"headline-{at}", found)]
    sizes = accumulate(min(len(each.found), MAX_DRAWN) for each in every)
    drawn = sum(size <= _MAX_ROWS for size in sizes)
    charts = [_chart(each.id, each.found, names) for each in every[:drawn]]
    not_drawn = [figure for each in every[drawn:] for figure in each.found]
    shown, rest = charts[:_MAX_CHARTS], charts[_MAX_CHARTS:]
    said = sentences(line for run in runs for line in _verdicts(run, named=len(runs) > 1))
    parts = [said, chart_grid(chart.html for chart in shown)]
    if rest:
        parts.append(folded(f"{len(rest)} more charts", chart_grid(chart.html for chart in rest)))
    parts += [
        mark_notes(each.row for each in (*main, *_others(runs, main))),
        *_failures(runs),
        _more([*not_drawn, *_others(runs, main)], names),
    ]
    return Section("headline", "Main figures", together(parts))


def _main(run: PageRun) -> list[ResultRow]:
    """Return the rows that stand for a run: those of all metrics if its user chose them."""
    chosen = bool(run.spec.get("identity", {}).get("metric"))
    return [row for row in headline_results(run.record.results, every_metric=chosen) if not _is_elsewhere(row)]


def _is_elsewhere(row: ResultRow) -> bool:
    """Whether another section shows a row: the grid of token lookup, or the curve of a sweep."""
    return row.get("kind") == "lookup" or is_swept(row)


class _InChart(NamedTuple):
    """The figures of one chart, and its id."""

    id: str
    found: Sequence[_Figure]


def _in_charts(id_: str, found: Sequence[_Figure]) -> Iterator[_InChart]:
    """Yield the figures on one scale; where a chart has no room for all, those of each task."""
    tasks: dict[str, list[_Figure]] = {}
    for each in found:
        tasks.setdefault(_task(each, found), []).append(each)
    if len(found) <= MAX_DRAWN or len(found) == len(tasks):
        yield _InChart(id_, found)
        return
    for at, figures in enumerate(tasks.values(), 1):
        yield _InChart(f"{id_}-{at}", figures)


def _chart(id_: str, found: Sequence[_Figure], names: Mapping[tuple[str, str], str]) -> Chart:
    """Draw figures on one scale: rows are systems, tasks, or systems below each task."""
    metric, upwards, bounds = figure_scale(found[0].row)
    bounds = bounds or _bounds_of_parts(found[0])
    tasks = dict.fromkeys(_task(each, found) for each in found)
    systems = dict.fromkeys(names[each.system] for each in found)
    many = len(systems) > SERIES  # then colours tell nothing, and the best ones come first
    numbers = {system: 0 if many else at for at, system in enumerate(systems)}
    order = {task: at for at, task in enumerate(tasks)}
    counted = ("n", *(name for name in ("unanswered", "failed") if any(each.row.get(name) for each in found)))
    rows = []
    for each in sorted(found, key=lambda each: (order[_task(each, found)], _badness(each.row) if many else 0.0)):
        task, system = _task(each, found), names[each.system]
        counts = [field_number(each.run, each.row, name) for name in counted]
        group = task if len(tasks) > 1 and len(systems) > 1 else ""
        name = task if len(systems) == 1 else system
        rows.append(IntervalRow(name, estimate(each.run, each.row), counts, group, numbers[system]))
    alone = f" · {next(iter(tasks))}" if len(tasks) == 1 and len(systems) > 1 else ""
    title = f"{metric}{alone}{'' if upwards else ', lower is better'}"
    return interval_chart(id_, title, rows, heads=("value", "95 %", *counted), bounds=bounds)


def _bounds_of_parts(figure: _Figure) -> tuple[float | None, ...]:
    """Return the ends of the scale of an average, whose row has none: those of what it averages, if they agree."""
    parts = [row for row in figure.run.record.results if row["metric"] == figure.row["metric"] and row.get("bounds")]
    known = {tuple(row["bounds"]) for row in parts}
    return known.pop() if len(known) == 1 else ()


def _task(each: _Figure, found: Sequence[_Figure]) -> str:
    """Return the task of a figure; that of search is the benchmark, with the chunker where there are several."""
    name, chunks = str(each.row.get("benchmark", each.row["task"])), each.row.get("chunks")
    several = chunks is not None and len({other.row.get("chunks") for other in found}) > 1
    return f"{name} · {chunks}" if several else name


def _badness(row: ResultRow) -> float:
    """Return a number that is lower for better figures; a figure that is unknown comes last."""
    value = finite(row.get("value"))
    return math.inf if value is None else value if row.get("higher_is_better") is False else -value


def _verdicts(run: PageRun, *, named: bool) -> Iterator[str]:
    """Yield who is ahead among the models of a run; search engines have a section of their own."""
    benchmarks = {row["benchmark"] for row in run.record.results if "benchmark" in row}
    compared = [row for row in run.record.comparisons if row["task"] not in benchmarks and SWEEP not in row]
    yield from (f"{run.name}: {line}" if named else line for line in model_verdicts(compared))


def _failures(runs: Sequence[PageRun]) -> Iterator[Markup]:
    for run in runs:
        if failed := failed_samples(run.record.results):
            told = "1 sample failed and is" if failed == 1 else f"{failed:,} samples failed and are"
            of = f"{run.name}: " if len(runs) > 1 else ""
            yield tag("p", f"{of}{told} in no figure.", class_="chart-note")


def _others(runs: Sequence[PageRun], main: Sequence[_Figure]) -> list[_Figure]:
    """Return the other figures of whole tasks: other metrics, the parts of averages, and details."""
    shown = {id(found.row) for found in main}
    return [
        _Figure(run, row)
        for run in runs
        for row in run.record.results
        if not {"kind", "category", SAME} & row.keys() and id(row) not in shown
    ]


def _more(rest: Sequence[_Figure], names: Mapping[tuple[str, str], str]) -> Markup:
    """Return figures that no chart has, folded."""
    if not rest:
        return Markup("")
    rows, sources = [found.row for found in rest], [found.run.address(found.row) for found in rest]
    systems = [names[found.system] for found in rest] if len(names) > 1 else None
    view = figures_view(rows, systems=systems, digits=lambda _: None, sources=sources)
    shown = view.only("task", "model", "metric", "value", "95 %", "n")
    return folded(f"More figures ({len(rest):,})", table_html(shown, "More figures"))
