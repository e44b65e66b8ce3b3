"""Figures that come with others: a column for each, or a line for each where the columns do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.table import Table

from kshot.core.visible import one_line
from kshot.report.drawn_table import drawn
from kshot.report.view import Column, TableView, words

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
