"""Results as tables that fit a terminal: the main figures, and those that come with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table

from kshot.core.records import ResultRow
from kshot.core.visible import metric_label, one_line
from kshot.report.cells import cell
from kshot.report.drawn_table import drawn
from kshot.report.figures import figure_cell, marked_figure, short_names
from kshot.report.quantities import money
from kshot.report.sample_texts import counted
from kshot.report.view import Column, Content, TableView, Tone, words

_GAP = 2
"""The space between two columns."""
_MIN_TASK_WIDTH = 24
"""The width that names of tasks have before the columns are divided."""


class DetailsTable:
    """The figures of several tasks, all of the same metrics. No name of a metric is ever cut.

    Where the columns do not fit, few tasks have a line for each figure, and many have several tables.
    """

    def __init__(self, metrics: Sequence[str], tasks: Mapping[str, Mapping[str, str]]) -> None:
        """``tasks``: the figures of each, as they are shown, by metric."""
        self._metrics, self._tasks = metrics, tasks

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        """Draw it as wide as the terminal is."""
        del console  # the width is all that counts
        parts = [*self._parts(options.max_width)]
        if len(parts) > 1 and len(self._tasks) < len(self._metrics):
            yield self._by_line()
        else:
            yield from map(self._by_column, parts)

    def _parts(self, width: int) -> Iterator[list[str]]:
        """Yield the metrics in groups whose columns fit beside the names of the tasks."""
        most = max(cell_len(one_line(task)) for task in self._tasks)
        left = room = width - min(most, _MIN_TASK_WIDTH)
        part: list[str] = []
        for metric in self._metrics:
            shown = [one_line(metric), *(figures[metric] for figures in self._tasks.values())]
            wide = _GAP + max(map(cell_len, shown))
            if part and wide > left:
                yield part
                part, left = [], room
            part.append(metric)
            left -= wide
        yield part

    def _by_column(self, metrics: Sequence[str]) -> Table:
        columns = [*words("task"), *(Column(metric, "number") for metric in metrics)]
        return _drawn(columns, [[task, *(own[metric] for metric in metrics)] for task, own in self._tasks.items()])

    def _by_line(self) -> Table:
        columns = [*words("task", "metric"), Column("value", "number", wraps=False)]
        rows = [
            ["" if number else task, metric, figures[metric]]
            for task, figures in self._tasks.items()
            for number, metric in enumerate(self._metrics)
        ]
        return _drawn(columns, rows)


def _drawn(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Table:
    return drawn(TableView(columns, rows), style="dim", header_style="dim")


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
    kinds: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for line, figures in lines.items():
        kinds.setdefault(tuple(figures), []).append(line)
    for metrics, some in kinds.items():
        title = "By all rules:" if any(line in ruled for line in some) else "More figures:"
        labels = [task if len(names) == 1 else f"{names[model]} · {task}" for model, task in some]
        yield Group(
            cell(title, "dim"), DetailsTable(metrics, dict(zip(labels, (lines[line] for line in some), strict=True)))
        )


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
