"""Search systems side by side: systems down, measures across."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.table import Table

from kshot.core.records import ResultRow
from kshot.core.visible import one_line
from kshot.report.cells import block
from kshot.report.drawn_table import drawn
from kshot.report.figures import figure_cell, short_names
from kshot.report.sample_texts import counted
from kshot.report.view import Cell, Column, Content, TableView

_SHOWN_MEASURES = ("AC_MRR@10", "AC_Recall@10", "AC_Recall@2000t", "nDCG@10", "R@100", "RR@10")
"""What the table shows of the default measures; ``summary.json`` has them all."""

_MAIN_COUNT = 3
"""How many of the main measures the default measures of a benchmark have."""

_MIN_NAME_WIDTH = 12
_MAX_INTERVALS = 4
"""Figures with intervals that fit side by side on a terminal; more figures stand without intervals."""

_NAMES = {"chapter": "document"}
"""What readers call the fields of a passage."""


def systems_tables(rows: Sequence[ResultRow]) -> Iterator[Table]:
    """Draw one table for each benchmark: each figure with its 95 % interval."""
    for name in dict.fromkeys(row["benchmark"] for row in rows):
        whole = [row for row in rows if row["benchmark"] == name and "category" not in row]
        yield _table(name, whole, shown_measures(whole))


def shown_measures(rows: Sequence[ResultRow]) -> list[str]:
    """Return the measures to show: all, or the main ones where the measures are the default ones."""
    measures = list(dict.fromkeys(row["metric"] for row in rows))
    main = [measure for measure in measures if measure in _SHOWN_MEASURES]
    return main if len(main) == _MAIN_COUNT and len(measures) > _MAIN_COUNT else measures


def _table(name: str, rows: Sequence[ResultRow], measures: Sequence[str]) -> Table:
    failed = any(row["failed"] for row in rows)
    several_cuts = len({row.get("chunks") for row in rows}) > 1
    questions = counted(max(row["n"] + row["failed"] for row in rows), "question")
    title = one_line(f"{name}: {questions}, {_passage_count(rows)}{_in_common(rows)}")
    where = f",\n{one_line(searched)}" if (searched := searched_where(rows[0])) else ""
    cells = {(row["model"], row.get("chunks"), row["metric"]): row for row in rows}
    names = short_names(row["model"] for row in rows)
    best = {measure: _best(rows, measure) for measure in measures}
    intervals = len(measures) <= _MAX_INTERVALS - failed
    lines: list[list[Content]] = []
    for model, chunks in dict.fromkeys((row["model"], row.get("chunks")) for row in rows):
        found = [cells.get((model, chunks, measure)) for measure in measures]
        line: list[Content] = [names[model], *([str(chunks)] if several_cuts else [])]
        line += [_cell(row, best[measure], interval=intervals) for row, measure in zip(found, measures, strict=True)]
        lines.append([*line, *([str(max((row["failed"] for row in found if row), default=0))] if failed else [])])
    columns = [Column("system", least=_MIN_NAME_WIDTH), *([Column("chunks")] if several_cuts else [])]
    columns += [Column(measure, "figure", wraps=False) for measure in measures]
    columns += [Column("failed", "number", tone="bad")] if failed else []
    table = drawn(TableView(columns, lines))
    table.title, table.title_justify = block(title + where, "bold"), "left"
    table.min_width = len(where) or None  # where is searched stands in one line, however narrow the table is
    return table


def _best(rows: Sequence[ResultRow], measure: str) -> float | None:
    found = [row for row in rows if row["metric"] == measure and row["value"] is not None]
    if not found:
        return None
    values = [row["value"] for row in found]
    best: float = max(values) if found[0]["higher_is_better"] else min(values)
    return best


def _passage_count(rows: Sequence[ResultRow]) -> str:
    counts = sorted({row["passages"] for row in rows})
    return counted(counts[0], "passage") if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,} passages"


def _in_common(rows: Sequence[ResultRow]) -> str:
    """Return what all systems have in common: the chunker, and the search engine of a model that reads passages."""
    chunkers = {row.get("chunks") for row in rows} - {None}
    search_engines = {row.get("search") for row in rows} - {None}
    cut = f", cut by {next(iter(chunkers))}" if len(chunkers) == 1 else ""
    return cut + (f", found by {next(iter(search_engines))}" if search_engines else "")


def searched_where(row: ResultRow) -> str:
    """Say where questions search, if there are documents; passages with grades are all searched."""
    field = row.get("within")
    if field is None:
        return ""
    return "searching all documents" if field == "none" else f"within the question's {_NAMES.get(field, field)}"


def _cell(row: ResultRow | None, best: float | None, *, interval: bool) -> Cell:
    if row is None:
        return Cell("–")
    found = figure_cell(row, tone="strong" if row["value"] == best else "")
    return found if interval else replace(found, interval=None)
