"""Results as a table that fits a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

Row = dict[str, Any]

_ACROSS = 2
"""Models that fit side by side."""

_COUNTS = {"unanswered": "yellow", "failed": "bold red"}
"""What a reader must not miss: replies without an answer (counted wrong), and samples without a reply (not counted)."""


def results_table(rows: Sequence[Row]) -> Table:
    """Tasks down, models across when there are several; each figure with its 95 % interval."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    if len(models) > _ACROSS:  # too wide side by side: every model gets lines of its own
        rows = [{**row, "task": f"{short(row['model'])} · {row['task']}", "model": ""} for row in rows]
        models = [""]
    counts = {name: style for name, style in _COUNTS.items() if any(row.get(name) for row in rows)}
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 1))
    table.add_column("task", overflow="fold")
    table.add_column("metric")
    ranked = any(row.get("ranking_type") for row in rows)
    if ranked:
        table.add_column("by")
    table.add_column("n", justify="right")
    for model in models:
        table.add_column(short(model) if len(models) > 1 else "value", justify="right", overflow="fold")
        table.add_column("95 %", justify="right", style="dim", no_wrap=True)
    for name, style in counts.items():
        table.add_column(name, justify="right", style=style)
    for (task, metric), found in _by_task(rows).items():
        cells: list[str | Text] = [Text(task), metric]
        if ranked:
            cells.append(", ".join(dict.fromkeys(str(row.get("ranking_type", "")) for row in found.values())))
        cells.append(str(max(row["n"] for row in found.values())))
        for model in models:
            row = found.get(model)
            cells += ["", ""] if row is None else [_figure(row), _interval(row)]
        for name in counts:
            count = sum(row.get(name, 0) for row in found.values())
            cells.append(str(count) if count else "")
        table.add_row(*cells)
    return table


def _by_task(rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, Row]]:
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        found.setdefault((row["task"], row["metric"]), {})[row["model"]] = row
    return found


def _figure(row: Row) -> str:
    return "–" if row["value"] is None else f"{row['value']:.2f}"


def _interval(row: Row) -> str:
    return "" if row["ci95"] is None else f"{row['ci95'][0]:.1f}–{row['ci95'][1]:.1f}"


def short(model: str) -> str:
    """The end of a model's path is what tells models apart."""
    kind, colon, rest = model.partition(":")
    if kind == "replay" and "#" in rest:
        return rest.rpartition("#")[2]
    if kind in {"openai", "anthropic"}:
        model_name, at, place = rest.partition("@")
        return f"{kind}:{model_name}{at}{place.partition('://')[2].partition('/')[0]}"
    return f"{kind}{colon}{rest.rstrip('/').rsplit('/', 1)[-1]}"


_SERVERS = ("openai:", "anthropic:")


def spending(usage: Sequence[Row]) -> list[str]:
    """A line on the tokens of every model behind a server, with what they cost where that is known."""
    lines = []
    for row in usage:
        if "cost_usd" in row or row["model"].startswith(_SERVERS):
            cost = f", {row['cost_usd']:.4g} USD" if "cost_usd" in row else ""
            read, wrote = row["prompt_tokens"], row["completion_tokens"]
            role = "" if row["role"] == "model" else f" ({row['role']})"
            lines.append(f"{row['model']}{role}: {read:,} tokens read, {wrote:,} written{cost}")
    return lines
