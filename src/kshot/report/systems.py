"""Search systems side by side: systems down, measures across, and which system is ahead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from kshot.core.records import ResultRow
from kshot.report.table import short_names

_MAIN_MEASURES = ("AC_MRR@10", "AC_Recall@10", "AC_Recall@2000t", "nDCG@10", "R@100", "RR@10")
"""What the table shows of the default measures; ``summary.json`` has them all."""

_MAIN_COUNT = 3
"""How many of the main measures the default measures of a benchmark have."""

_MAX_LISTED = 3
"""Systems that a verdict lists."""

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
    main = [measure for measure in measures if measure in _MAIN_MEASURES]
    return main if len(main) == _MAIN_COUNT and len(measures) > _MAIN_COUNT else measures


def _table(name: str, rows: Sequence[ResultRow], measures: Sequence[str]) -> Table:
    failed = any(row["failed"] for row in rows)
    several_cuts = len({row.get("chunks") for row in rows}) > 1
    questions = _counted(max(row["n"] + row["failed"] for row in rows), "question")
    table = Table(
        box=None,
        pad_edge=False,
        header_style="bold",
        title=Text(f"{name}: {questions}, {_passage_count(rows)}{_in_common(rows)}", style="bold"),
        title_justify="left",
    )
    table.add_column("system", overflow="fold", min_width=_MIN_NAME_WIDTH)
    if several_cuts:
        table.add_column("chunks", overflow="fold")
    for measure in measures:
        table.add_column(measure, justify="right", no_wrap=True)
    if failed:
        table.add_column("failed", justify="right", style="bold red")
    cells = {(row["model"], row.get("chunks"), row["metric"]): row for row in rows}
    names = short_names(row["model"] for row in rows)
    best = {measure: _best(rows, measure) for measure in measures}
    intervals = len(measures) <= _MAX_INTERVALS - failed
    for model, chunks in dict.fromkeys((row["model"], row.get("chunks")) for row in rows):
        found = [cells.get((model, chunks, measure)) for measure in measures]
        line: list[Text | str] = [Text(names[model]), *([str(chunks)] if several_cuts else [])]
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
    """Return what all systems have in common: the chunker, where is searched, and the search engine of a reader."""
    chunkers = {row.get("chunks") for row in rows} - {None}
    search_engines = {row.get("search") for row in rows} - {None}
    cut = f", cut by {next(iter(chunkers))}" if len(chunkers) == 1 else ""
    return cut + searched_where(rows[0]) + (f", found by {next(iter(search_engines))}" if search_engines else "")


def searched_where(row: ResultRow) -> str:
    """Say where questions search, if there are documents; passages with grades are all searched."""
    field = row.get("within")
    if field is None:
        return ""
    return ", searching all documents" if field == "none" else f", within the question's {_NAMES.get(field, field)}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("s" if count != 1 else "")


def _cell(row: ResultRow | None, best: float | None, *, interval: bool) -> Text:
    if row is None or row["value"] is None:
        return Text("–")
    digits = 1 if row["value"] > 1 or (row["ci95"] or [0, 0])[1] > 1 else 3
    figure = Text(f"{row['value']:.{digits}f}", style="bold" if row["value"] == best else "")
    if row["ci95"] is not None and interval:
        low, high = (_LEADING_ZERO.sub("", f"{end:.{digits}f}") for end in row["ci95"])
        figure.append(f" {low}–{high}", style="dim")
    return figure


# ---- verdicts ----


def verdicts(comparisons: Sequence[ResultRow], rows: Sequence[ResultRow]) -> Iterator[str]:
    """Say for each measure that is shown which systems the best one is ahead of, and which it cannot be told from."""
    shown = set(shown_measures(rows))
    names = short_names(row[side] for row in comparisons for side in ("a_model", "b_model"))
    for task, measure in dict.fromkeys((row["task"], row["metric"]) for row in comparisons if row["metric"] in shown):
        pairs = [row for row in comparisons if (row["task"], row["metric"]) == (task, measure)]
        systems = {system for row in pairs for system in (row["a"], row["b"])}
        if len(pairs) < len(systems) * (len(systems) - 1) // 2:  # systems with different chunks cannot all be compared
            continue
        leader = _leader(pairs)
        others = [_seen_by(leader, row) for row in pairs if leader in {row["a"], row["b"]}]
        behind = [row for row in others if row["ahead"] == leader]
        level = [row for row in others if row["ahead"] != leader]
        parts = [f"is ahead of {_listed(behind, names)}"] if behind else []
        if level:
            parts.append(f"cannot be told from {_listed(level, names)}")
        yield f"{task} {measure}: {_system_name(others[0], 'a', names)} {', but '.join(parts)}."


def _leader(pairs: Sequence[ResultRow]) -> str:
    """Return the system with the best figure: it is behind no other."""
    behind = {row["b"] if _first_is_better(row) else row["a"] for row in pairs}
    systems = dict.fromkeys(str(system) for row in pairs for system in (row["a"], row["b"]))
    return next((system for system in systems if system not in behind), next(iter(systems)))


def _first_is_better(row: ResultRow) -> bool:
    """Whether the first system of a pair has the better figure, or the same."""
    better: bool = row["difference"] >= 0 if row["higher_is_better"] else row["difference"] <= 0
    return better


def _seen_by(leader: str, row: ResultRow) -> ResultRow:
    """Return the pair with the leader as its first system."""
    if row["a"] == leader:
        return row
    swapped = {name: row.get(other) for name, other in _SWAPPED.items()}
    interval = None if row["ci95"] is None else [-row["ci95"][1], -row["ci95"][0]]
    return {**row, **swapped, "difference": -row["difference"], "ci95": interval}


_SWAPPED = {
    "a": "b",
    "b": "a",
    "a_model": "b_model",
    "b_model": "a_model",
    "a_chunks": "b_chunks",
    "b_chunks": "a_chunks",
}


def _system_name(row: ResultRow, side: str, names: Mapping[str, str]) -> str:
    chunks = row.get(f"{side}_chunks")
    return names[row[f"{side}_model"]] + ("" if chunks is None else f" · {chunks}")


def _listed(rows: Sequence[ResultRow], names: Mapping[str, str]) -> str:
    closest = sorted(rows, key=lambda row: row["difference"] if row["higher_is_better"] else -row["difference"])
    shown = [_against(row, names) for row in closest[:_MAX_LISTED]]
    more = len(rows) - len(shown)
    return "; ".join(shown) + (f" and {more} more" if more > 0 else "")


def _against(row: ResultRow, names: Mapping[str, str]) -> str:
    digits = 3 if abs(row["difference"]) <= 1 and abs((row["ci95"] or [0])[-1]) <= 1 else 1
    # adding 0 turns a rounded -0.0 into 0.0
    ends = [round(end, digits) + 0.0 for end in row["ci95"] or ()]
    between = f", 95 %: {ends[0]:+.{digits}f} to {ends[1]:+.{digits}f}" if ends else ""
    return f"{_system_name(row, 'b', names)} ({row['difference']:+.{digits}f}{between}, sign test p {row['p']:.2g})"
