"""Search systems side by side: systems down, measures across, and who is really ahead of whom."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from kshot.report.table import short

Row = dict[str, Any]

_SHOWN = ("AC_MRR@10", "AC_Recall@10", "AC_Recall@2000t", "nDCG@10", "R@100", "RR@10")
"""What the table shows of the default measures; ``summary.json`` has them all."""

_FEW = 3
_NARROWEST = 12
_WIDEST = 4
"""Figures with intervals that stand side by side on a terminal; more of them stand without."""

_LEADING = re.compile(r"(?<!\d)0(?=\.)")


def systems_tables(rows: Sequence[Row]) -> Iterator[Table]:
    """Draw one table per benchmark: each figure with its 95 % interval."""
    for name in dict.fromkeys(row["benchmark"] for row in rows):
        whole = [row for row in rows if row["benchmark"] == name and "[" not in row["task"].removeprefix(name)]
        yield _table(name, whole, shown_of(whole))


def shown_of(rows: Sequence[Row]) -> list[str]:
    """Choose the measures to show: all, or the main ones where there are many."""
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    main = [metric for metric in metrics if metric in _SHOWN]
    return main if len(main) == _FEW and len(metrics) > _FEW else metrics


def _table(name: str, rows: Sequence[Row], metrics: Sequence[str]) -> Table:
    failed = any(row["failed"] for row in rows)
    chunked = len({row.get("chunks") for row in rows}) > 1
    count = max(row["n"] + row["failed"] for row in rows)
    table = Table(
        box=None,
        pad_edge=False,
        header_style="bold",
        title=Text(f"{name}: {_counted(count, 'question')}, {_passages(rows)}{_how(rows)}", style="bold"),
        title_justify="left",
    )
    table.add_column("system", overflow="fold", min_width=_NARROWEST)
    if chunked:
        table.add_column("chunks", overflow="fold")
    for metric in metrics:
        table.add_column(metric, justify="right", no_wrap=True)
    if failed:
        table.add_column("failed", justify="right", style="bold red")
    cells = {(row["model"], row.get("chunks"), row["metric"]): row for row in rows}
    best = {metric: _best(rows, metric) for metric in metrics}
    for model, chunks in dict.fromkeys((row["model"], row.get("chunks")) for row in rows):
        found = [cells.get((model, chunks, metric)) for metric in metrics]
        line: list[Text | str] = [Text(short(model)), *([str(chunks)] if chunked else [])]
        wide = len(metrics) <= _WIDEST - failed
        line += [_cell(row, best[metric], wide=wide) for row, metric in zip(found, metrics, strict=True)]
        table.add_row(*line, *([str(max((row["failed"] for row in found if row), default=0))] if failed else []))
    return table


def _best(rows: Sequence[Row], metric: str) -> float | None:
    return max((row["value"] for row in rows if row["metric"] == metric and row["value"] is not None), default=None)


def _passages(rows: Sequence[Row]) -> str:
    counts = sorted({row["passages"] for row in rows})
    return _counted(counts[0], "passage") if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,} passages"


def _how(rows: Sequence[Row]) -> str:
    """What all systems have in common: the cut, and the engine that searches for a model that reads."""
    cuts = {row.get("chunks") for row in rows} - {None}
    by = {row.get("search") for row in rows} - {None}
    cut = f", cut by {next(iter(cuts))}" if len(cuts) == 1 else ""
    return cut + (f", found by {next(iter(by))}" if by else "")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("s" if count != 1 else "")


def _cell(row: Row | None, best: float | None, *, wide: bool) -> Text:
    if row is None or row["value"] is None:
        return Text("–")
    digits = 1 if row["value"] > 1 or (row["ci95"] or [0, 0])[1] > 1 else 3
    figure = Text(f"{row['value']:.{digits}f}", style="bold" if row["value"] == best else "")
    if row["ci95"] is not None and wide:
        low, high = (_LEADING.sub("", f"{end:.{digits}f}") for end in row["ci95"])
        figure.append(f" {low}–{high}", style="dim")
    return figure


def verdicts(comparisons: Sequence[Row], rows: Sequence[Row]) -> Iterator[str]:
    """Say for each measure that is shown who is ahead of whom, and what cannot be told apart from the best."""
    shown = set(shown_of(rows))
    for task, metric in dict.fromkeys((row["task"], row["metric"]) for row in comparisons if row["metric"] in shown):
        pairs = [row for row in comparisons if (row["task"], row["metric"]) == (task, metric)]
        names = {name for row in pairs for name in (row["a"], row["b"])}
        if len(pairs) < len(names) * (len(names) - 1) // 2:  # cut differently, these cannot all be compared
            continue
        leader = _leader(pairs)
        others = [_facing(leader, row) for row in pairs if leader in {row["a"], row["b"]}]
        behind = [row for row in others if row["ahead"] == leader]
        level = [row for row in others if row["ahead"] != leader]
        parts = [f"is ahead of {_listed(behind)}"] if behind else []
        if level:
            parts.append(f"cannot be told from {_listed(level)}")
        yield f"{task} {metric}: {_named(leader)} {', but '.join(parts)}."


def _leader(rows: Sequence[Row]) -> str:
    """The system with the best figure: it loses against none."""
    losers = {row["b"] if row["difference"] >= 0 else row["a"] for row in rows}
    names = dict.fromkeys(str(name) for row in rows for name in (row["a"], row["b"]))
    return next((name for name in names if name not in losers), next(iter(names)))


def _facing(leader: str, row: Row) -> Row:
    """The pair as the leader sees it."""
    if row["a"] == leader:
        return {**row, "other": row["b"]}
    turned = None if row["ci95"] is None else [-row["ci95"][1], -row["ci95"][0]]
    return {**row, "other": row["a"], "difference": -row["difference"], "ci95": turned}


def _named(system: str) -> str:
    model, mark, chunks = system.partition(" · ")
    return short(model) + mark + chunks


def _listed(rows: Sequence[Row]) -> str:
    shown = [_against(row) for row in sorted(rows, key=lambda row: row["difference"])[:_FEW]]
    more = len(rows) - len(shown)
    return "; ".join(shown) + (f" and {more} more" if more > 0 else "")


def _against(row: Row) -> str:
    digits = 3 if abs(row["difference"]) <= 1 and abs((row["ci95"] or [0])[-1]) <= 1 else 1
    # adding 0 turns a rounded -0.0 into 0.0
    ends = [round(end, digits) + 0.0 for end in row["ci95"] or ()]
    between = f", 95 %: {ends[0]:+.{digits}f} to {ends[1]:+.{digits}f}" if ends else ""
    return f"{_named(row['other'])} ({row['difference']:+.{digits}f}{between}, sign test p {row['p']:.2g})"
