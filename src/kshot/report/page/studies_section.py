"""Studies of examples: figures by the number of shots, and how far the choice of examples alone moves them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from kshot.core.errors import UsageError
from kshot.core.records import ResultRow
from kshot.core.specs import split_options
from kshot.core.visible import metric_label
from kshot.report.exports.shots import shots_in_prompts
from kshot.report.figures import number, short_names
from kshot.report.page.charts import Chart, chart_grid, sentences
from kshot.report.page.charts_intervals import IntervalRow, interval_chart
from kshot.report.page.charts_lines import line_chart
from kshot.report.page.markup import Section, tag, together
from kshot.report.page.numbers import estimate, field_number, mark_notes
from kshot.report.page.page_run import PageRun, system_names
from kshot.report.page.tables import table_html
from kshot.report.verdicts import spreads
from kshot.report.view import Cell, Series, TableView, numbers, words
from kshot.runs.headline import headlines
from kshot.runs.swept_rows import SWEEP

_MAX_CHARTS = 12
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
    held: dict[tuple[str, str], list[_Shot]] = {}
    for shot in _shots(runs):
        held.setdefault(shot.asked, []).append(shot)
    studied = {asked: found for asked, found in held.items() if len({each.shots for each in found}) > 1}
    if not studied:
        return None
    models = short_names(dict.fromkeys(str(each.row["model"]) for found in studied.values() for each in found))
    charts = [
        _by_shots(f"shots-{at}", *asked, found, models).html
        for at, (asked, found) in enumerate(list(studied.items())[:_MAX_CHARTS], start=1)
    ]
    parts = [chart_grid(charts)]
    if len(studied) > _MAX_CHARTS:
        parts.append(tag("p", f"… and {len(studied) - _MAX_CHARTS:,} more tasks in summary.json.", class_="soft"))
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
        name, turn = models[str(each.row["model"])], 1
        while each.shots in lines.setdefault(_turn(name, turn), {}):
            turn += 1
        lines[_turn(name, turn)][each.shots] = estimate(each.run, each.row)
    series = [Series(name, [held.get(step) for step in steps]) for name, held in lines.items()]
    bounds: _Bounds = tuple(found[0].row.get("bounds") or ())
    upwards = found[0].row.get("higher_is_better") is not False
    title = f"{metric} on {task}{'' if upwards else ', lower is better'}"
    return line_chart(id_, title, [str(step) for step in steps], series, across="examples in the prompt", bounds=bounds)


def _turn(name: str, turn: int) -> str:
    return name if turn == 1 else f"{name} ({turn})"


# ---- draws of examples ----


def draws_section(runs: Sequence[PageRun]) -> Section | None:
    """Return the section on draws of examples; None if no run made several."""
    spread = [(run, row) for run in runs for row in run.record.results if "sd" in row and not row.get("detail")]
    if not spread:
        return None
    names = system_names(runs)
    charts = [_drawn(f"draws-{at}", run, row, names) for at, (run, row) in enumerate(spread[:_MAX_CHARTS], start=1)]
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
    rows = [
        IntervalRow(f"seed {each['example_seed']}", estimate(run, each), [field_number(run, each, "n")]) for each in own
    ]
    system = f" · {names[run.key, str(row['model'])]}" if len(names) > 1 else ""
    bounds: _Bounds = tuple((own[0].get("bounds") if own else None) or ())
    reference = None if row["value"] is None else (row["value"], f"mean {number(row['value'], 2)}")
    return interval_chart(id_, f"{metric_label(row)} on {of}{system}", rows, bounds=bounds, reference=reference)
