"""Token lookup results as a picture: tasks down, lengths across, cells shaded by accuracy; and what to look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

Row = dict[str, Any]

_LOW, _HIGH = (150, 40, 40), (30, 110, 60)


def grids(rows: Sequence[Row]) -> Iterator[RenderableType]:
    """Draw one table per model: accuracy in percent by variant, task and length."""
    cells = {
        (row["model"], row["variant"], row["lookup"], row["length"]): row for row in rows if row["metric"] == "Accuracy"
    }
    lengths = sorted({length for *_, length in cells})
    for model in dict.fromkeys(model for model, *_ in cells):
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("variant")
        table.add_column("task")
        for length in lengths:
            table.add_column(str(length), justify="center", min_width=5)
        lines = dict.fromkeys((form, task) for who, form, task, _ in cells if who == model)
        forms = list(dict.fromkeys(form for form, _ in lines))
        shown = ""
        for form, task in sorted(lines, key=lambda line: forms.index(line[0])):
            found = [cells.get((model, form, task, length)) for length in lengths]
            table.add_row(form if form != shown else "", task, *(_cell(row) for row in found))
            shown = form
        yield Group(
            Text(f"{model}: accuracy in % by length ({_counts(rows, model)})", style="bold", overflow="fold"), table
        )


def _counts(rows: Sequence[Row], model: str) -> str:
    counts = sorted({row["n"] for row in rows if row["model"] == model and row["metric"] == "Accuracy"})
    return f"{counts[0]} records each" if len(counts) == 1 else f"{counts[0]}–{counts[-1]} records each"


def _cell(row: Row | None) -> Text:
    if row is None or row["value"] is None:
        return Text("–" if row is not None else "", justify="center")
    share = row["value"] / 100
    red, green, blue = (round(low + (high - low) * share) for low, high in zip(_LOW, _HIGH, strict=True))
    return Text(
        f" {row['value']:.0f} ", style=Style(color="white", bgcolor=f"rgb({red},{green},{blue})"), justify="center"
    )


def findings(rows: Sequence[Row]) -> Iterator[str]:
    """Say in a few lines where the figures fall, how the wrong answers are wrong, and which gap is real."""
    fall = max(_falls(rows), key=lambda pair: pair[0]["value"] - pair[1]["value"], default=None)
    if fall is not None and fall[0]["ci95"][0] > max(fall[1]["ci95"][1], fall[0]["chance"]):
        before, after = fall
        yield (
            f"{after['lookup']} ({after['variant']}) falls from {before['value']:.0f} at length {before['length']} "
            f"to {after['value']:.0f} at {after['length']}{_error(rows, after)}; chance is {after['chance']:.0f}."
        )
        place = f"lookup:{after['lookup']} --length {after['length']} --variant '{after['variant']}'"
        yield f"Look: kshot preview -d {place} --limit 1"
    gaps = [row for row in rows if row["metric"].startswith("gap:") and _sure(row["ci95"])]
    if gaps:
        top = max(gaps, key=lambda row: abs(row["value"]))
        better, worse = top["lookup"].split("-")
        ahead, behind = (better, worse) if top["value"] > 0 else (worse, better)
        low, high = sorted(abs(end) for end in top["ci95"])
        yield (
            f"On the same records {ahead} is {abs(top['value']):.0f} points ahead of {behind} "
            f"(95 %: {low:.0f}–{high:.0f}) at length {top['length']} ({top['variant']})."
        )


def _sure(interval: list[float] | None) -> bool:
    return interval is not None and not interval[0] <= 0 <= interval[1]


def _falls(rows: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """Neighbouring lengths of one task under one variant."""
    lines: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row["metric"] == "Accuracy" and row["value"] is not None:
            lines.setdefault((row["model"], row["variant"], row["lookup"]), []).append(row)
    for line in lines.values():
        ordered = sorted(line, key=lambda row: row["length"])
        yield from pairwise(ordered)


def _error(rows: Sequence[Row], cell: Row) -> str:
    """The commonest kind of error of a cell."""
    place = [cell[name] for name in ("model", "task")]
    kinds = [r for r in rows if r["metric"].startswith("error: ") and [r["model"], r["task"]] == place and r["value"]]
    if not kinds:
        return ""
    top = max(kinds, key=lambda row: row["value"])
    return (
        f" ({top['value'] / (100 - cell['value']) * 100:.0f} % of the errors: {top['metric'].removeprefix('error: ')})"
    )
