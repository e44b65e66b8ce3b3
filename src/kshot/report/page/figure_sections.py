"""The figures of runs on pages: the main ones, those by category and subset, and studies of examples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, count
from typing import NamedTuple, TypeAlias

from markupsafe import Markup

from kshot.core.errors import UsageError
from kshot.core.records import ResultRow
from kshot.core.specs import split_options
from kshot.core.visible import metric_label
from kshot.report.breakdown import Breakdown, By, breakdown, figure_scale, sorting, whole_of
from kshot.report.figures import figures_view, number, short_names
from kshot.report.page.charts import (
    MAX_DRAWN,
    Chart,
    IntervalRow,
    chart_grid,
    folded,
    interval_chart,
    sentences,
    table_html,
)
from kshot.report.page.charts_lines import line_chart
from kshot.report.page.markup import Section, tag, together
from kshot.report.page.page_run import PageRun, estimate, field_number, mark_notes, system_names
from kshot.report.page.svg import SERIES
from kshot.report.sample_look import shots_in_prompts
from kshot.report.verdicts import model_verdicts, spreads
from kshot.report.view import Cell, Series, TableView, numbers, words
from kshot.runs.headline import failed_samples, finite, grouped, headline_results, headlines
from kshot.runs.swept_rows import SAME, SWEEP, is_swept

_MAX_CHARTS = 4
"""Charts that are open; the others fold. Of categories, the charts that there are, one for each metric."""

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

    def drawn(self, name: str, counts: Sequence[str] = ("n",), group: str = "", series: int = 0) -> IntervalRow:
        """Return the row of a chart, with some fields of the figure as counts."""
        numbers = [field_number(self.run, self.row, each) for each in counts]
        return IntervalRow(name, estimate(self.run, self.row), numbers, group, series)


def headline_section(runs: Sequence[PageRun]) -> Section | None:
    """Return the section on the main figures; None if no task has a figure of its own, as in token lookup."""
    main = [_Figure(run, row) for run in runs for row in _main(run)]
    if not main:
        return None
    main.sort(key=lambda found: "average" not in found.row)  # it is stable: the rest keeps its order
    names, scales = system_names(runs), grouped(main, lambda found: figure_scale(found.row)).values()
    every = [each for at, found in enumerate(scales, 1) for each in _in_charts(f"headline-{at}", found)]
    sizes = accumulate(min(len(figures), MAX_DRAWN) for _, figures in every)
    drawn = sum(size <= _MAX_ROWS for size in sizes)
    charts = [_chart(id_, figures, names) for id_, figures in every[:drawn]]
    not_drawn = [figure for _, figures in every[drawn:] for figure in figures]
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
    found = headline_results(run.record.results, every_metric=chosen)
    return [row for row in found if row.get("kind") != "lookup" and not is_swept(row)]  # these have own sections


def _in_charts(id_: str, found: Sequence[_Figure]) -> Iterator[tuple[str, Sequence[_Figure]]]:
    """Yield the id and the figures of each chart: all on one scale, or those of each task where there is no room."""
    tasks = grouped(found, lambda each: _task(each, found))
    if len(found) <= MAX_DRAWN or len(found) == len(tasks):
        yield id_, found
    else:
        yield from ((f"{id_}-{at}", figures) for at, figures in enumerate(tasks.values(), 1))


def _chart(id_: str, found: Sequence[_Figure], names: Mapping[tuple[str, str], str]) -> Chart:
    """Draw figures on one scale: rows are systems, tasks, or systems below each task."""
    metric, upwards, bounds = figure_scale(found[0].row)
    if not bounds:  # the row of an average has none: those of what it averages, if they agree
        results = found[0].run.record.results
        known = {
            tuple(row["bounds"]) for row in results if row["metric"] == found[0].row["metric"] and row.get("bounds")
        }
        bounds = known.pop() if len(known) == 1 else ()
    tasks = list(dict.fromkeys(_task(each, found) for each in found))
    systems = list(dict.fromkeys(names[each.system] for each in found))
    many = len(systems) > SERIES  # then colours tell nothing, and the best ones come first
    counts = ("n", *(name for name in ("unanswered", "failed") if any(each.row.get(name) for each in found)))
    rows = []
    for each in sorted(found, key=lambda each: (tasks.index(_task(each, found)), _badness(each.row) if many else 0.0)):
        task, system = _task(each, found), names[each.system]
        name, group = (task, "") if len(systems) == 1 else (system, task if len(tasks) > 1 else "")
        rows.append(each.drawn(name, counts, group, 0 if many else systems.index(system)))
    alone = f" · {tasks[0]}" if len(tasks) == 1 and len(systems) > 1 else ""
    title = f"{metric}{alone}{'' if upwards else ', lower is better'}"
    return interval_chart(id_, title, rows, heads=("value", "95 %", *counts), bounds=bounds)


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


# ---- by category and by subset ----


_TITLES: dict[By, tuple[str, str]] = {
    "category": ("categories", "By category"),
    "subset": ("subsets", "By subset"),
}


def category_sections(runs: Sequence[PageRun]) -> list[Section]:
    """Return the sections by category and by subset, of those that the runs have."""
    return [section for by in _TITLES if (section := _section(runs, by)) is not None]


def _section(runs: Sequence[PageRun], by: By) -> Section | None:
    id_, title = _TITLES[by]
    parts: list[_Figure] = []
    told: dict[str, None] = {"The worst come first.": None}
    for run in runs:
        rows = [row for row in run.record.results if row.get("kind") != "lookup"]
        with suppress(UsageError):  # the run has no such figures
            found = breakdown(rows, by)
            parts += [_Figure(run, row) for row in found.every]
            told |= dict.fromkeys(_told(found, by))
    if not parts:
        return None
    scales = grouped(parts, lambda part: figure_scale(part.row))
    charts = [
        _parts_chart(f"{id_}-{at}", _together(those, by, runs), by, title, runs).html
        for at, those in enumerate(list(scales.values())[:_MAX_CHARTS], start=1)
    ]
    said, left = tag("p", " ".join(told), class_="soft"), len(scales) - _MAX_CHARTS
    others = f"… and {left:,} more metric{'s' if left > 1 else ''} in summary.json: kshot show --by {by} --metric NAME"
    more = [tag("p", others, class_="chart-note")] if left > 0 else []
    return Section(id_, title, together((said, chart_grid(charts), mark_notes(part.row for part in parts), *more)))


def _together(parts: Sequence[_Figure], by: By, runs: Sequence[PageRun]) -> list[_Figure]:
    """Return the figures with those of one part beside each other, in the order in which its first one comes."""
    held = grouped(parts, lambda part: (str(part.row[by]), whole_of(part.row, by)))
    order = list(system_names(runs))
    return [part for those in held.values() for part in sorted(those, key=lambda part: order.index(part.system))]


def _told(found: Breakdown, by: By) -> Iterator[str]:
    """Say how the figures are sorted, and which are missing."""
    yield from (f"{line[0].upper()}{line[1:].rstrip('.')}." for line in sorting(found))
    if empty := sum(row.get("value") is None for row in found.every):
        many = f"{empty:,} {_TITLES[by][0]}" if empty > 1 else f"1 {by}"
        come = "come" if empty > 1 else "comes"
        yield f"{many} without a figure, because every sample failed, {come} last."


def _parts_chart(id_: str, parts: Sequence[_Figure], by: By, title: str, runs: Sequence[PageRun]) -> Chart:
    names, drawn = system_names(runs), {part.system for part in parts}
    systems = [key for key in names if key in drawn]
    wholes = list(dict.fromkeys(whole_of(part.row, by) for part in parts))
    metric, upwards, bounds = figure_scale(parts[0].row)
    counts = ("n", *["failed"] * any(part.row.get("failed") for part in parts))
    rows = []
    for part in parts:
        name = str(part.row[by]) + (f" · {whole_of(part.row, by)}" if len(wholes) > 1 else "")
        shown, group = (names[part.system], name) if len(systems) > 1 else (name, "")
        rows.append(part.drawn(shown, counts, group, systems.index(part.system)))
    whole = f" · {wholes[0]}" if len(wholes) == 1 and wholes[0] else ""
    told = f"{metric} {title.lower()}{whole}{'' if upwards else ', lower is better'}"
    return interval_chart(id_, told, rows, heads=("value", "95 %", *counts), bounds=bounds)


# ---- by the number of examples ----


_MAX_STUDIES = 12
_Bounds: TypeAlias = tuple[float | None, ...]


class _Shot(NamedTuple):
    """A figure of a task with so many examples in the prompt."""

    run: PageRun
    row: ResultRow
    shots: int

    @property
    def asked(self) -> tuple[str, str]:
        """What is asked and measured: the dataset and its subset, whatever the run calls the task, and the metric."""
        task = str(self.row.get("of") or self.row["task"])
        with suppress(UsageError):  # a name that is no spec
            head, options = split_options(task)
            others = (f",{name}={value}" for name, value in options.items() if name != "num_shots")
            task = head + "".join(others)
        return task, metric_label(self.row)


def shots_section(runs: Sequence[PageRun]) -> Section | None:
    """Return the section on the number of shots; None if no task is there with several numbers of shots."""
    held = grouped(_shots(runs), lambda shot: shot.asked).items()
    studied = {asked: found for asked, found in held if len({each.shots for each in found}) > 1}
    if not studied:
        return None
    models = short_names(dict.fromkeys(str(each.row["model"]) for found in studied.values() for each in found))
    charts = [
        _by_shots(f"shots-{at}", *asked, found, models).html
        for at, (asked, found) in enumerate(list(studied.items())[:_MAX_STUDIES], start=1)
    ]
    parts = [chart_grid(charts)]
    if len(studied) > _MAX_STUDIES:
        parts.append(tag("p", f"… and {len(studied) - _MAX_STUDIES:,} more tasks in summary.json.", class_="soft"))
    parts.append(mark_notes(each.row for found in studied.values() for each in found))
    return Section("shots", "By number of examples", together(parts))


def _shots(runs: Sequence[PageRun]) -> Iterator[_Shot]:
    """Yield the main figure of each task whose number of shots is known; of draws of examples, the single ones."""
    for run in runs:
        parts = {"category", "average", "gap", "sd", "kind", SWEEP}  # a sweep has a section of its own
        rows = [row for row in run.record.results if not parts & row.keys()]
        for row in headlines(rows, lambda row: (row["task"], row.get("model"))):
            shots = shots_in_prompts(run.record, run.spec, row["task"], row["model"])
            if shots is not None and row["value"] is not None:
                yield _Shot(run, row, shots)


def _by_shots(id_: str, task: str, metric: str, found: Sequence[_Shot], models: Mapping[str, str]) -> Chart:
    """Draw a line for each model; where several figures have as many shots, as draws of examples do, one for each."""
    steps = sorted({each.shots for each in found})
    lines: dict[str, dict[int, Cell]] = {}
    for each in found:
        model = models[str(each.row["model"])]
        names = (model if turn == 1 else f"{model} ({turn})" for turn in count(1))
        line = next(name for name in names if each.shots not in lines.setdefault(name, {}))
        lines[line][each.shots] = estimate(each.run, each.row)
    series = [Series(name, [held.get(step) for step in steps]) for name, held in lines.items()]
    bounds: _Bounds = tuple(found[0].row.get("bounds") or ())
    upwards = found[0].row.get("higher_is_better") is not False
    title = f"{metric} on {task}{'' if upwards else ', lower is better'}"
    return line_chart(id_, title, [str(step) for step in steps], series, across="examples in the prompt", bounds=bounds)


# ---- draws of examples ----


def draws_section(runs: Sequence[PageRun]) -> Section | None:
    """Return the section on draws of examples; None if no run made several."""
    spread = [(run, row) for run in runs for row in run.record.results if "sd" in row and not row.get("detail")]
    if not spread:
        return None
    names = system_names(runs)
    charts = [_drawn(f"draws-{at}", run, row, names) for at, (run, row) in enumerate(spread[:_MAX_STUDIES], start=1)]
    several = len(names) > 1
    columns = [*words("task", *["model"] * several, "metric"), *numbers("mean", "SD", "lowest", "highest", "n")]
    rows = [
        (
            row["task"],
            *((names[run.key, str(row["model"])],) if several else ()),
            metric_label(row),
            *(field_number(run, row, name, 2) for name in ("value", "sd", "lowest", "highest")),
            field_number(run, row, "n"),
        )
        for run, row in spread
    ]
    told = sentences(line for run in runs for line in spreads(run.record.results))
    note = "Each point is the whole task with another draw of examples; the figures differ by that choice alone."
    table = table_html(TableView(columns, rows), "Draws of examples")
    marks = mark_notes(row for _, row in spread)
    parts = [told, tag("p", note, class_="soft"), table, chart_grid(each.html for each in charts), marks]
    return Section("draws", "By draw of examples", together(parts))


def _drawn(id_: str, run: PageRun, row: ResultRow, names: Mapping[tuple[str, str], str]) -> Chart:
    """Draw the figures of all draws behind a spread, each with its interval, the lowest first."""
    drawn = [
        each
        for each in run.record.results
        if {"of", "example_seed"} <= each.keys()
        and "category" not in each
        and (each["model"], each["metric"]) == (row["model"], row["metric"])
    ]
    of = next((str(each["of"]) for each in drawn if row["task"].startswith(f"{each['of']}[")), row["task"])
    own = [each for each in drawn if each["of"] == of]
    own.sort(key=lambda each: (each["value"] is None, each["value"] or 0.0))
    rows = [_Figure(run, each).drawn(f"seed {each['example_seed']}") for each in own]
    system = f" · {names[run.key, str(row['model'])]}" if len(names) > 1 else ""
    bounds: _Bounds = tuple((own[0].get("bounds") if own else None) or ())
    reference = None if row["value"] is None else (row["value"], f"mean {number(row['value'], 2)}")
    return interval_chart(id_, f"{metric_label(row)} on {of}{system}", rows, bounds=bounds, reference=reference)
