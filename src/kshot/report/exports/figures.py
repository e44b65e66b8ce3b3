"""The figures of runs as tables for a text: what stands where, and which figure a test puts ahead of all others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kshot.core.records import ResultRow
from kshot.report.exports.leaders import SystemId, leaders, question_of
from kshot.report.systems import shown_measures
from kshot.report.table import number, short_names
from kshot.report.verdicts import p_value
from kshot.runs.headline import finite
from kshot.runs.record import RunRecord

_DEFAULT_DIGITS, _MAX_DIGITS = 2, 6

_OWN_TABLES = ("lookup", "passages")
"""The kinds of tasks that have tables of their own."""


class Cell(NamedTuple):
    """A figure with its interval, as texts; ``ahead``: a test puts it ahead of all others of its task and metric."""

    value: str
    interval: tuple[str, str] | None
    ahead: bool


@dataclass(frozen=True, slots=True)
class FiguresTable:
    """A table: label columns, figure columns, and the cells of each line; sentences that belong below it."""

    title: str
    labels: Sequence[str]
    columns: Sequence[str]
    lines: Sequence[tuple[Sequence[str], Sequence[Cell | None]]]
    notes: Sequence[str]


class _Figures(NamedTuple):
    """The rows to show with their systems, the names of these, and which one is ahead of which."""

    rows: Sequence[tuple[SystemId, ResultRow]]
    names: Mapping[SystemId, str]
    leaders: Mapping[tuple[str, str], SystemId]
    family: int


def figures_tables(runs: Mapping[str, RunRecord], comparisons: Sequence[ResultRow]) -> Iterator[FiguresTable]:
    """Yield the tables of some runs: token lookup, each passage benchmark, and everything else.

    ``comparisons`` are rows as ``summary.json`` has them, with ``a_run`` and ``b_run`` where there are several runs.
    """
    rows = [
        (SystemId(label, row["model"], str(row.get("chunks", ""))), row)
        for label, record in runs.items()
        for row in record.results
        if not row.get("detail") and "gap" not in row
    ]
    ahead = leaders(rows, comparisons, next(iter(runs)))
    family = max((row.get("family", 1) for row in comparisons), default=0)
    figures = _Figures(rows, _names([system for system, _ in rows]), ahead, family)
    yield from _lookup_tables(figures)
    for benchmark in dict.fromkeys(row["benchmark"] for _, row in rows if row.get("kind") == "passages"):
        yield _benchmark_table(benchmark, figures)
    if any(row.get("kind") not in _OWN_TABLES for _, row in rows):
        yield _tasks_table(figures)


# ---- the tables ----


def _tasks_table(figures: _Figures) -> FiguresTable:
    """Return tasks down and systems across."""
    rows = [(system, row) for system, row in figures.rows if row.get("kind") not in _OWN_TABLES]
    systems = list(dict.fromkeys(system for system, _ in rows))
    found: dict[tuple[str, str], dict[SystemId, ResultRow]] = {}
    for system, row in rows:
        found.setdefault((row["task"], row["metric"]), {})[system] = row
    lines = []
    for (task, metric), own in found.items():
        cells = [own.get(system) for system in systems]
        lower = all(row is None or row.get("higher_is_better") is False for row in cells)
        lines.append(([task, f"{metric} ↓" if lower else metric, *_counts(cells, rows)], cells))
    columns = [figures.names[system] for system in systems] if len(systems) > 1 else ["value"]
    title = "" if len(systems) > 1 else systems[0].model
    return _table(title, ["task", "metric", *_count_names(rows)], columns, lines, figures)


def _benchmark_table(benchmark: str, figures: _Figures) -> FiguresTable:
    """Return search engines down and measures across."""
    rows = [(system, row) for system, row in figures.rows if row.get("benchmark") == benchmark]
    rows = [(system, row) for system, row in rows if row.get("kind") == "passages" and "category" not in row]
    measures = shown_measures([row for _, row in rows])
    found: dict[SystemId, dict[str, ResultRow]] = {}
    for system, row in rows:
        found.setdefault(system, {})[row["metric"]] = row
    lines = []
    for system, own in found.items():
        cells = [own.get(measure) for measure in measures]
        lines.append(([figures.names[system], *_counts(cells, rows)], cells))
    return _table(benchmark, ["system", *_count_names(rows)], measures, lines, figures)


def _lookup_tables(figures: _Figures) -> Iterator[FiguresTable]:
    """Return tasks of token lookup down and lengths across, if there are any."""
    rows = [(system, row) for system, row in figures.rows if row.get("kind") == "lookup"]
    lengths = sorted({row["length"] for _, row in rows})
    found: dict[tuple[SystemId, str, str, str], dict[int, ResultRow]] = {}
    for system, row in rows:
        found.setdefault((system, row["variant"], row["lookup"], row["metric"]), {})[row["length"]] = row
    several = len({system for system, _ in rows}) > 1
    lines = []
    for (system, variant, task, metric), own in found.items():
        cells = [own.get(length) for length in lengths]
        names = [figures.names[system]] if several else []
        lines.append(([*names, variant, task, metric, *_counts(cells, rows)], cells))
    labels = [*(["system"] if several else []), "variant", "task", "metric", *_count_names(rows)]
    if lines:
        yield _table("token lookup by length", labels, [str(length) for length in lengths], lines, figures)


def comparisons_table(comparisons: Sequence[ResultRow]) -> FiguresTable:
    """Return a difference in each line: of which two systems, with its interval and corrected p."""
    digits = _digits(comparisons, "difference")
    lines = []
    for row in comparisons:
        p = "–" if finite(row["p_corrected"]) is None else p_value(row)
        labels = [row["task"], row["metric"], row["a"], row["b"], str(row.get("n", "")), p]
        lines.append((labels, [_cell(row, digits, ahead=row["ahead"] is not None, name="difference", sign="+")]))
    family = max((row.get("family", 1) for row in comparisons), default=1)
    note = f"p is that of a paired test{_corrected(family)}. A difference in bold is beyond chance (p < 5 %)."
    notes = ["The difference is that of the first system minus the second, with its 95 % interval.", note]
    labels = ["task", "metric", "first", "second", "n", "p"]
    return FiguresTable("comparisons", labels, ["difference"], lines, notes)


def _table(
    title: str,
    labels: Sequence[str],
    columns: Sequence[str],
    lines: Sequence[tuple[Sequence[str], Sequence[ResultRow | None]]],
    figures: _Figures,
) -> FiguresTable:
    shown = [row for _, cells in lines for row in cells if row is not None]
    by_metric: dict[str, list[ResultRow]] = {}
    for row in shown:
        by_metric.setdefault(row["metric"], []).append(row)
    digits = {metric: _digits(rows, "value") for metric, rows in by_metric.items()}
    places = {id(row): system for system, row in figures.rows}

    def cell(row: ResultRow | None) -> Cell | None:
        if row is None:
            return None
        ahead = figures.leaders.get(question_of(row)) == places[id(row)]
        return _cell(row, digits[row["metric"]], ahead=ahead)

    cells = [(names, [cell(row) for row in own]) for names, own in lines]
    return FiguresTable(title, labels, columns, cells, _notes(cells, shown, figures))


def _notes(
    lines: Iterable[tuple[Sequence[str], Sequence[Cell | None]]], shown: Sequence[ResultRow], figures: _Figures
) -> list[str]:
    cells = [cell for _, own in lines for cell in own if cell is not None]
    notes = []
    if any(cell.interval for cell in cells):
        notes.append("Brackets are 95 % intervals.")
    if any(row.get("higher_is_better") is False for row in shown):
        notes.append("↓: lower is better.")
    if any(row.get("failed") for row in shown):
        notes.append("Failed samples are in no figure.")
    if any(cell.ahead for cell in cells):
        how = f"by a paired test (p < 5 %{_corrected(figures.family)})"
        notes.append(f"Bold: ahead of every other system, {how}.")
    elif figures.family:
        notes.append(f"No figure is ahead of all others by a paired test (p < 5 %{_corrected(figures.family)}).")
    return notes


def _corrected(family: int) -> str:
    return f", corrected for {family} comparisons" if family > 1 else ""


def _count_names(rows: Iterable[tuple[SystemId, ResultRow]]) -> list[str]:
    return ["n", *(["failed"] if any(row.get("failed") for _, row in rows) else [])]


def _counts(cells: Sequence[ResultRow | None], rows: Iterable[tuple[SystemId, ResultRow]]) -> list[str]:
    """Return the samples behind the figures of a line, and those that failed; one number if all are the same."""
    counts = []
    for name in _count_names(rows):
        own = [str(row.get(name, 0)) for row in cells if row is not None]
        counts.append(own[0] if len(set(own)) == 1 else " / ".join(own))
    return counts


# ---- names ----


def _names(systems: Iterable[SystemId]) -> dict[SystemId, str]:
    """Name each system by its model if no other has the same one, or else by its run, or by both."""
    found = dict.fromkeys(systems)
    models = short_names(dict.fromkeys(system.model for system in found))
    forms: list[Callable[[SystemId], str]] = [
        lambda system: models[system.model],
        lambda system: " · ".join(filter(None, (models[system.model], system.chunks))),
        lambda system: system.run,
        lambda system: f"{system.run} · {models[system.model]}",
        lambda system: " · ".join(filter(None, (system.run, models[system.model], system.chunks))),
    ]
    for form in forms:
        names = {system: form(system) for system in found}
        if len(set(names.values())) == len(found):
            return names
    return names


# ---- numbers ----


def _digits(rows: Iterable[ResultRow], name: str) -> int:
    """Return the digits after the point that the narrowest interval allows: its half has two that count."""
    known = [ends for row in rows if finite(row.get(name)) is not None and (ends := _ends(row)) is not None]
    halves = [abs(high - low) / 2 for low, high in known]
    narrowest = min((half for half in halves if 0 < half < math.inf), default=None)
    if narrowest is None:
        return _DEFAULT_DIGITS
    return min(max(1 - math.floor(math.log10(narrowest)), 1), _MAX_DIGITS)


def _cell(row: ResultRow, digits: int, *, ahead: bool, name: str = "value", sign: str = "") -> Cell:
    value, ends = finite(row.get(name)), _ends(row)
    if value is None:
        return Cell("–", None, ahead=False)
    low_high = None if ends is None else (number(ends[0], digits, sign), number(ends[1], digits, sign))
    return Cell(number(value, digits, sign), low_high, ahead)


def _ends(row: ResultRow) -> tuple[float, float] | None:
    low, high = (finite(end) for end in row.get("ci95") or (None, None))
    return None if low is None or high is None else (low, high)
