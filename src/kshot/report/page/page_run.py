"""A run as pages show it: what it found, its key in links, and its numbers with their places in summary.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from markupsafe import Markup

from kshot.core.failed_parts import mark_legend
from kshot.core.records import ResultRow
from kshot.report.figures import field_cell, figure_cell, short_names
from kshot.report.page.markup import figure, tag, together
from kshot.report.view import Cell
from kshot.runs.record import RunRecord


@dataclass(frozen=True)
class PageRun:
    """A finished run: its key in links, the name that people read, what it found, and its ``spec.json``."""

    key: str
    name: str
    record: RunRecord
    spec: Mapping[str, Any] = field(default_factory=dict)

    def address(self, row: ResultRow) -> str:
        """Return where a row of the record stands in ``summary.json``: ``KEY/results/INDEX``, for ``data-row``."""
        return self._addresses[id(row)]

    @cached_property
    def _addresses(self) -> dict[int, str]:
        lists = {"results": self.record.results, "comparisons": self.record.comparisons}
        return {id(row): f"{self.key}/{name}/{at}" for name, rows in lists.items() for at, row in enumerate(rows)}


def system_names(runs: Sequence[PageRun]) -> dict[tuple[str, str], str]:
    """Return a name for each model of each run, by the run's key and the model: as short as tells them apart.

    Of several runs with one model each, that is the same, the names are those of the runs.
    """
    models_of = [dict.fromkeys(str(row.get("model", "")) for row in run.record.results) for run in runs]
    pairs = [(run, model) for run, own in zip(runs, models_of, strict=True) for model in own]
    models = short_names(dict.fromkeys(model for _, model in pairs))
    several = len(runs) > 1
    named = {(run.key, model): f"{run.name} · {models[model]}" if several else models[model] for run, model in pairs}
    if several and len(models) == 1:
        return {(run.key, model): run.name for run, model in pairs}
    return named


def estimate(
    run: PageRun, row: ResultRow, digits: tuple[int, int] | None = None, name: str = "value", sign: str = ""
) -> Cell:
    """Return a figure of a run with its interval and its place: see ``figure_cell``."""
    return figure_cell(row, digits, name, sign, source=run.address(row))


def field_number(run: PageRun, row: ResultRow, name: str, digits: int | None = None) -> Cell:
    """Return a field of a row with its place: see ``field_cell``."""
    return field_cell(row, name, digits, source=run.address(row))


def mark_notes(rows: Iterable[ResultRow]) -> Markup:
    """Return what the marks of these figures mean, to stand below a chart or a table."""
    return together(tag("p", line, class_="chart-note") for line in mark_legend(rows))


def number_html(found: Cell) -> Markup:
    """Return a number within HTML, with its place."""
    shown = figure(found.number, found.written, found.field)
    return shown if found.source is None else tag("span", shown, data_row=found.source)


def interval_html(found: Cell) -> Markup:
    """Return an interval within HTML, or nothing."""
    if found.interval is None:
        return Markup("")
    low, high = found.interval
    return together((number_html(low), found.dash, number_html(high)))
