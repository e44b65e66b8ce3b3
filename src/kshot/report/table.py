"""Results as tables that fit a terminal: the main figures, those that come with them, and grids of token lookup."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table

from kshot.core.failed_parts import failure_mark
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label, one_line
from kshot.report.cells import cell
from kshot.report.drawn_table import ByWidth, drawn, widths
from kshot.report.figures import figure_cell, marked_figure, short_names
from kshot.report.quantities import money
from kshot.report.sample_look import counted
from kshot.report.verdicts import corrected_for, shown_p
from kshot.report.view import Column, Content, TableView, Tone, words
from kshot.runs.headline import grouped
from kshot.runs.results import falls

_GAP = 2
"""The space between two columns."""
_MIN_TASK_WIDTH = 24
"""The width that names of tasks have before the columns are divided."""


def _details(view: TableView, width: int) -> Iterator[Table]:
    """Draw tasks down and metrics across. No name of a metric is ever cut.

    Where the columns do not fit, few tasks have a line for each figure, and many have several tables.
    """
    metrics = view.columns[1:]
    most = max(cell_len(one_line(task.text)) for task in view.cells("task"))
    left = room = width - min(most, _MIN_TASK_WIDTH)
    parts: list[list[str]] = [[]]
    for metric, wide in zip(metrics, widths(view)[1:], strict=True):
        if parts[-1] and _GAP + wide > left:
            parts.append([])
            left = room
        parts[-1].append(metric.name)
        left -= _GAP + wide
    views = [view.only("task", *part) for part in parts]
    if len(parts) > 1 and len(view.rows) < len(metrics):
        lines = [
            ["" if at else task, metric.heading, figure]
            for task, *figures in view.rows
            for at, (metric, figure) in enumerate(zip(metrics, figures, strict=True))
        ]
        views = [TableView([*words("task", "metric"), Column("value", "number", wraps=False)], lines)]
    return (drawn(view, style="dim", header_style="dim") for view in views)


_MAX_MODEL_COLUMNS = 2
"""Models that fit side by side."""

_MAX_NAME_WIDTH = 16
"""The width of a name that fits above its column."""

_MAX_SAID_WIDTH = 24
"""The width of what a row says of how it was scored."""

_SAID = {"ranking_type": "by", "code": "code"}
"""What a row may say of how it was scored, and the title of its column: the rule, and whose code ran."""

_COUNT_TONES: dict[str, Tone] = {"ties": "warn", "unanswered": "warn", "failed_replies": "poor", "failed": "bad"}
"""Counts that are shown where there are any: samples whose options tie, unreadable replies (scored as wrong), failed
ones among several replies to a sample, and samples without a reply."""


def results_table(rows: Sequence[ResultRow]) -> Table:
    """Draw tasks down, and models across when there are several; each figure has its 95 % interval.

    Figures that break others down are in ``details_tables``.
    """
    rows = [row for row in rows if not row.get("detail")]
    models = list(dict.fromkeys(row["model"] for row in rows))
    names = short_names(models)
    wide = len(models) > 1 and max(map(len, names.values())) > _MAX_NAME_WIDTH
    if len(models) > _MAX_MODEL_COLUMNS or wide:  # too wide side by side: every model gets lines of its own
        rows = [{**row, "task": f"{names[row['model']]} · {row['task']}", "model": ""} for row in rows]
        models = [""]
    counts = {name: tone for name, tone in _COUNT_TONES.items() if any(row.get(name) for row in rows)}
    said = {key: title for key, title in _SAID.items() if any(row.get(key) for row in rows)}
    columns = [*words("task", "metric"), *(Column(title, most=_MAX_SAID_WIDTH) for title in said.values())]
    columns.append(Column("n", "number"))
    for model in models:
        columns += [Column(names[model] if len(models) > 1 else "value", "number"), Column("95 %", "interval")]
    columns += [Column(name.replace("_", " "), "number", tone=tone) for name, tone in counts.items()]
    lines: list[list[Content]] = []
    told: set[tuple[str, str]] = set()
    for (task, _), found in _by_task(rows).items():
        line: list[Content] = [task, metric_label(*found.values())]
        line += [
            "" if (task, key) in told else ", ".join(dict.fromkeys(str(row.get(key, "")) for row in found.values()))
            for key in said
        ]
        told.update((task, key) for key in said if key == "code")  # one for all figures of a task
        sizes = [row["n"] for model in models if (row := found.get(model)) is not None]
        line.append(" / ".join(map(str, sizes)) if len(set(sizes)) > 1 else str(sizes[0]))
        for model in models:
            row = found.get(model)
            line += [None if row is None else figure_cell(row, (2, 1))] * 2
        for name in counts:
            own_counts = [found[model].get(name, 0) if model in found else 0 for model in models]
            line.append(" / ".join(map(str, own_counts)) if any(own_counts) else "")  # one for each model
        lines.append(line)
    return drawn(TableView(columns, lines))


def details_tables(rows: Sequence[ResultRow]) -> Iterator[RenderableType]:
    """Draw the figures that come with others from the same answers, side by side: one table for each kind of task.

    Where subsets have averages, or draws of examples a spread, these stand for the single ones.
    """
    names = short_names(dict.fromkeys(row["model"] for row in rows))
    averaged = {row["dataset"] for row in rows if row.get("average")}
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        single = ("subset" in row and row.get("dataset") in averaged) or "example_seed" in row
        if row.get("detail") and not single:
            lines.setdefault((row["model"], row["task"]), {})[row["metric"]] = marked_figure(row)
    ruled = {(row["model"], row["task"]) for row in rows if row.get("rule")}
    for metrics, some in grouped(lines, lambda line: tuple(lines[line])).items():
        title = "By all rules:" if any(line in ruled for line in some) else "More figures:"
        labels = [task if len(names) == 1 else f"{names[model]} · {task}" for model, task in some]
        columns = [*words("task"), *(Column(metric, "number", key=f"figure {at}") for at, metric in enumerate(metrics))]
        figures = [[label, *lines[line].values()] for label, line in zip(labels, some, strict=True)]
        yield Group(cell(title, "dim"), ByWidth(partial(_details, TableView(columns, figures))))


def _by_task(rows: Sequence[ResultRow]) -> dict[tuple[str, str], dict[str, ResultRow]]:
    """Group the rows by task and metric; each group has a row for each model."""
    found: dict[tuple[str, str], dict[str, ResultRow]] = {}
    for row in rows:
        found.setdefault((row["task"], row["metric"]), {})[row["model"]] = row
    return found


def spending(usage: Sequence[ResultRow]) -> list[str]:
    """Return a line on the tokens of every model behind a server, with their cost where prices are known."""
    lines = []
    for row in usage:
        if "cost_usd" in row or row.get("server"):
            cost = f", {money(row['cost_usd'])}" if "cost_usd" in row else ""
            read, wrote = row["prompt_tokens"], row["completion_tokens"]
            cached = f" ({row['cached_tokens']:,} cached)" if row.get("cached_tokens") else ""
            requests = f", {counted(row['requests'], 'request')}" if "requests" in row else ""
            role = "" if row["role"] == "model" else f" ({row['role']}{requests})"
            lines.append(f"{row['model']}{role}: {read:,} tokens read{cached}, {wrote:,} written{cost}")
    return lines


# ---- token lookup: grids, and the main findings ----


def grids(rows: Sequence[ResultRow]) -> Iterator[RenderableType]:
    """Draw one table for each model: accuracy in percent by variant, task and length."""
    accuracies = [row for row in rows if not row.get("detail") and "gap" not in row]
    lengths = sorted({row["length"] for row in accuracies})
    for model, own in grouped(accuracies, itemgetter("model")).items():
        counts = sorted({row["n"] for row in own})
        each = "–".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        title = f"{model}: accuracy in % by length ({each} records each)"
        yield Group(cell(title, "bold", overflow="fold"), drawn(grid_view(own, lengths).once("variant")))


def grid_view(rows: Sequence[ResultRow], lengths: Sequence[int]) -> TableView:
    """Return the accuracies of a model: tasks of each variant down, lengths across."""
    cells = {(row["variant"], row["lookup"], row["length"]): figure_cell(row, (0, 0)) for row in rows}
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    lines = dict.fromkeys((row["variant"], row["lookup"]) for row in rows)
    shown = sorted(lines, key=lambda line: variants.index(line[0]))
    columns = [*words("variant", "task"), *(Column(str(length), "share", least=5) for length in lengths)]
    return TableView(columns, [[*line, *(cells.get((*line, length)) for length in lengths)] for line in shown])


def findings(rows: Sequence[ResultRow], *, look: bool = True) -> Iterator[str]:
    """Say in a few lines where the accuracy falls, which gap is beyond chance, and, with ``look``, how to see it."""
    if fall := _largest_fall(rows):
        yield _fall_sentence(rows, *fall)
        if look:
            yield f"Look: {preview_of(rows)}"
    yield from _gap_sentence(rows)


def preview_of(rows: Sequence[ResultRow]) -> str | None:
    """Return the command that shows a question where the accuracy falls most; None where it does not fall."""
    fall = _largest_fall(rows)
    if fall is None:
        return None
    task, length, variant = (str(fall[1][name]) for name in ("lookup", "length", "variant"))
    words = ["kshot", "preview", "-d", f"lookup:{task}", "--length", length, "--variant", variant, "--limit", "1"]
    return shlex.join(words)


def _largest_fall(rows: Sequence[ResultRow]) -> tuple[ResultRow, ResultRow] | None:
    """Return the cells between which the accuracy falls most, beyond chance."""
    found = [(before, after) for before, after in falls(rows) if before["ci95"][0] > before["chance"]]
    return max(found, key=lambda pair: pair[0]["value"] - pair[1]["value"], default=None)


def _fall_sentence(rows: Sequence[ResultRow], before: ResultRow, after: ResultRow) -> str:
    high, low = (figure_cell(row, (0, 0)).written for row in (before, after))
    return (
        f"{after['lookup']} ({after['variant']}) falls from {high} at length {before['length']} "
        f"to {low} at {after['length']}{_main_error(rows, after)}; chance is {after['chance']:.0f}."
    )


def _gap_sentence(rows: Sequence[ResultRow]) -> Iterator[str]:
    gaps = [row for row in rows if row.get("gap") and row["ahead"] is not None]
    if gaps:
        top = max(gaps, key=lambda row: abs(row["value"]))
        behind = top["worse"] if top["ahead"] == top["better"] else top["better"]
        low, high = sorted(abs(end) for end in top["ci95"])
        points = f"{abs(top['value']):.0f}{failure_mark(top)} points"
        yield (
            f"On the same records {top['ahead']} is {points} ahead of {behind} "
            f"(95 %: {low:.0f}–{high:.0f}, {shown_p(top)}) at length {top['length']} ({top['variant']})"
            f"{corrected_for(top['family'])}."
        )


def _main_error(rows: Sequence[ResultRow], cell: ResultRow) -> str:
    """Return the most frequent kind of error in a cell, with its share of the errors."""
    own = [row for row in rows if (row["model"], row["task"]) == (cell["model"], cell["task"])]
    errors = [row for row in own if "error" in row and row["value"]]
    if not errors:
        return ""
    top = max(errors, key=lambda row: row["value"])
    return f" ({top['value'] / (100 - cell['value']) * 100:.0f} % of the errors: {top['error']})"
