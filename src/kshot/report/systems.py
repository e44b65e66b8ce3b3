"""Search systems side by side: systems down, measures across."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from kshot.core.failed_parts import failure_mark
from kshot.core.records import ResultRow
from kshot.core.visible import one_line
from kshot.report.cells import block, cell
from kshot.report.table import short_names

_SHOWN_MEASURES = ("AC_MRR@10", "AC_Recall@10", "AC_Recall@2000t", "nDCG@10", "R@100", "RR@10")
"""What the table shows of the default measures; ``summary.json`` has them all."""

_MAIN_COUNT = 3
"""How many of the main measures the default measures of a benchmark have."""

_MIN_NAME_WIDTH = 12
_MAX_INTERVALS = 4
"""Figures with intervals that fit side by side on a terminal; more figures stand without intervals."""

_NAMES = {"chapter": "document"}
"""What readers call the fields of a passage."""

_LEADING_ZERO = re.compile(r"(?<!\d)0(?=\.)")


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
    questions = _counted(max(row["n"] + row["failed"] for row in rows), "question")
    title = one_line(f"{name}: {questions}, {_passage_count(rows)}{_in_common(rows)}")
    where = f",\n{one_line(searched)}" if (searched := searched_where(rows[0])) else ""
    table = Table(
        box=None,
        pad_edge=False,
        header_style="bold",
        title=block(title + where, "bold"),
        title_justify="left",
        min_width=len(where) or None,  # where is searched stands in one line, however narrow the table is
    )
    table.add_column("system", overflow="fold", min_width=_MIN_NAME_WIDTH)
    if several_cuts:
        table.add_column("chunks", overflow="fold")
    for measure in measures:
        table.add_column(cell(measure), justify="right", no_wrap=True)
    if failed:
        table.add_column("failed", justify="right", style="bold red")
    cells = {(row["model"], row.get("chunks"), row["metric"]): row for row in rows}
    names = short_names(row["model"] for row in rows)
    best = {measure: _best(rows, measure) for measure in measures}
    intervals = len(measures) <= _MAX_INTERVALS - failed
    for model, chunks in dict.fromkeys((row["model"], row.get("chunks")) for row in rows):
        found = [cells.get((model, chunks, measure)) for measure in measures]
        line = [cell(names[model]), *([cell(chunks)] if several_cuts else [])]
        line += [_cell(row, best[measure], interval=intervals) for row, measure in zip(found, measures, strict=True)]
        table.add_row(*line, *([str(max((row["failed"] for row in found if row), default=0))] if failed else []))
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
    return _counted(counts[0], "passage") if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,} passages"


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


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("s" if count != 1 else "")


def _cell(row: ResultRow | None, best: float | None, *, interval: bool) -> Text:
    if row is None or row["value"] is None:
        return cell("–" + ("" if row is None else failure_mark(row)))
    value, *ends = written_figure(row)
    figure = Text(value, style="bold" if row["value"] == best else "")
    if ends and interval:
        figure.append(f" {'–'.join(ends)}", style="dim")
    return figure


def written_figure(row: ResultRow) -> list[str]:
    """Return a figure of search as it is written, and then the two ends of its interval, if it has one."""
    digits = 1 if row["value"] > 1 or (row["ci95"] or [0, 0])[1] > 1 else 3
    ends = (_LEADING_ZERO.sub("", f"{end:.{digits}f}") for end in row["ci95"] or ())
    return [f"{row['value']:.{digits}f}{failure_mark(row)}", *ends]
