"""Search systems side by side as tables, and in sentences: which system is ahead of which, and what draws move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from rich.table import Table

from kshot.core.failed_parts import failure_mark, p_text
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label, one_line
from kshot.report.cells import block
from kshot.report.drawn_table import drawn
from kshot.report.figures import figure_cell, number, short_names, signed
from kshot.report.sample_look import counted
from kshot.report.view import Cell, Column, Content, TableView
from kshot.runs.headline import grouped

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


_MAX_LISTED = 3
"""Systems that a verdict lists."""

_MAX_LINES = 5
"""Sentences of one kind on the screen; the rest is in ``summary.json``."""


class _Sentence(NamedTuple):
    """What is said of one task and measure, whether that is an average, the smallest p, and whether any is behind."""

    line: str
    average: bool
    p: float
    decided: bool


def verdicts(comparisons: Sequence[ResultRow], rows: Sequence[ResultRow]) -> Iterator[str]:
    """Say for each measure that is shown which systems the best one is ahead of, and which it cannot be told from."""
    shown = set(shown_measures(rows))
    yield from (found.line for found in _sentences([row for row in comparisons if row["metric"] in shown]))


def model_verdicts(comparisons: Sequence[ResultRow]) -> Iterator[str]:
    """Say the same of models, task by task: averages and then the clearest differences, and only a few of many."""
    found = sorted(_sentences(comparisons), key=lambda sentence: (not sentence.average, sentence.p))
    yield from (sentence.line for sentence in found[:_MAX_LINES])
    if rest := found[_MAX_LINES:]:
        ahead = sum(sentence.decided for sentence in rest)
        yield f"… and {len(rest)} more comparisons in summary.json; a model is ahead in {ahead} of them."


def _sentences(comparisons: Sequence[ResultRow]) -> Iterator[_Sentence]:
    """Yield a sentence for each task and measure."""
    names = short_names(row[side] for row in comparisons for side in ("a_model", "b_model"))
    for (task, measure), pairs in grouped(comparisons, lambda row: (row["task"], metric_label(row))).items():
        systems = {system for row in pairs for system in (row["a"], row["b"])}
        if len(pairs) < len(systems) * (len(systems) - 1) // 2:  # systems with different chunks cannot all be compared
            continue
        leader = _leader(pairs)
        others = [row for row in pairs if leader in {row["a"], row["b"]}]
        behind = [row for row in others if row["ahead"] == leader]
        level = [row for row in others if row["ahead"] != leader]
        parts = [f"is ahead of {_listed(behind, leader, names)}"] if behind else []
        if level:
            parts.append(f"cannot be told from {_listed(level, leader, names)}")
        mark = max(map(failure_mark, others))  # the stronger one
        who = system_name(others[0], "a" if others[0]["a"] == leader else "b", names)
        found = f"{task}{mark} {measure}: {who} {', but '.join(parts)}"
        line = f"{found}{corrected_for(others[0]['family'])}."
        yield _Sentence(line, "average" in others[0], min(row["p_corrected"] for row in others), bool(behind))


def _leader(pairs: Sequence[ResultRow]) -> str:
    """Return the system with the best figure: it is behind no other."""
    behind = {row["a"] if _gain(row) > 0 else row["b"] for row in pairs}
    systems = dict.fromkeys(str(system) for row in pairs for system in (row["a"], row["b"]))
    return next((system for system in systems if system not in behind), next(iter(systems)))


def _gain(row: ResultRow) -> float:
    """Return by how much the second system of a pair is better than the first."""
    return float(row["difference"] if row["higher_is_better"] else -row["difference"])


def system_name(row: ResultRow, side: str, names: Mapping[str, str]) -> str:
    """Return the name of one of two systems that are compared, with its chunks if there are several."""
    chunks = row.get(f"{side}_chunks")
    return names[row[f"{side}_model"]] + ("" if chunks is None else f" · {chunks}")


def _listed(rows: Sequence[ResultRow], leader: str, names: Mapping[str, str]) -> str:
    """Return what a leader is compared with, the closest first, and by how much they differ."""
    closest = sorted(rows, key=lambda row: -_gain(row) if row["a"] == leader else _gain(row))[:_MAX_LISTED]
    shown = [f"{system_name(row, 'b' if row['a'] == leader else 'a', names)} ({differs_by(row)})" for row in closest]
    more = len(rows) - len(shown)
    return "; ".join(shown) + (f" and {more} more" if more > 0 else "")


def differs_by(row: ResultRow, mark: str = "") -> str:
    """Return the second system minus the first for a sentence, with its interval and p; ``mark`` follows the figure."""
    ends = row["ci95"] or ()
    digits = 3 if all(abs(each) <= 1 for each in (row["difference"], *ends)) else 1
    if row["ahead"] is None and ends and not ends[0] <= 0 <= ends[1]:
        ends = ()  # it knows nothing of the correction, or of the test: beside "cannot be told" it would contradict
    figure, *low_high = (signed(each, digits) for each in (row["difference"], *ends))
    between = f", 95 %: {' to '.join(low_high)}" if low_high else ""
    return f"{figure}{mark}{between}, {shown_p(row)}"


def shown_p(row: ResultRow) -> str:
    """Return the p by which a comparison is decided, for a sentence."""
    return f"p {p_text(row['p_corrected'])}"


def corrected_for(family: int) -> str:
    """Say for how many comparisons p is corrected, if there are several: the end of a sentence."""
    return f"; {correction(family)}" if family > 1 else ""


def correction(family: int) -> str:
    """Say for how many comparisons p is corrected."""
    return f"p is corrected for {family} comparisons"


# ---- draws of examples ----


def spreads(rows: Sequence[ResultRow]) -> Iterator[str]:
    """Say how far the choice of examples alone moves each figure, beside what the samples leave open."""
    found = [row for row in rows if row.get("sd") is not None and not row.get("detail")]
    names = short_names(dict.fromkeys(row["model"] for row in found))
    for row in found[:_MAX_LINES]:
        interval, of = row["ci95"], f" of {names[row['model']]}" if len(names) > 1 else ""
        beside = (
            f"; by the choice of samples alone: {number(interval[0], 1)}–{number(interval[1], 1)} (95 %)"
            if interval
            else ""
        )
        yield (
            f"{row['task']} {metric_label(row)}{of}: {number(row['value'], 2)}{failure_mark(row)} on average, "
            f"from {number(row['lowest'], 2)} to {number(row['highest'], 2)} by the choice of examples "
            f"(SD {number(row['sd'], 2)}){beside}."
        )
    if len(found) > _MAX_LINES:
        yield f"… and {len(found) - _MAX_LINES} more spreads in summary.json."
