"""Token lookup results as grids: tasks down, lengths across, cells shaded by accuracy; and the main findings."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType

from kshot.core.failed_parts import failure_mark
from kshot.core.records import ResultRow
from kshot.report.cells import cell
from kshot.report.drawn_table import drawn
from kshot.report.figures import figure_cell
from kshot.report.verdicts import corrected_for, shown_p
from kshot.report.view import Column, TableView, words
from kshot.runs.results import falls


def grids(rows: Sequence[ResultRow]) -> Iterator[RenderableType]:
    """Draw one table for each model: accuracy in percent by variant, task and length."""
    accuracies = [row for row in rows if not row.get("detail") and "gap" not in row]
    lengths = sorted({row["length"] for row in accuracies})
    for model in dict.fromkeys(row["model"] for row in accuracies):
        own = [row for row in accuracies if row["model"] == model]
        counts = sorted({row["n"] for row in own})
        each = "–".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        title = f"{model}: accuracy in % by length ({each} records each)"
        yield Group(cell(title, "bold", overflow="fold"), drawn(grid_view(own, lengths).once("variant")))


def grid_view(rows: Sequence[ResultRow], lengths: Sequence[int]) -> TableView:
    """Return the accuracies of a model: tasks of each variant down, lengths across."""
    cells = {(row["variant"], row["lookup"], row["length"]): figure_cell(row, (0, 0)) for row in rows}
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    lines = dict.fromkeys((row["variant"], row["lookup"]) for row in rows)
    shown = sorted(lines, key=lambda line: variants.index(line[0]))
    columns = [*words("variant", "task"), *(Column(str(length), "share", least=5) for length in lengths)]
    return TableView(columns, [[*line, *(cells.get((*line, length)) for length in lengths)] for line in shown])


def findings(rows: Sequence[ResultRow], *, look: bool = True) -> Iterator[str]:
    """Say in a few lines where the accuracy falls, which gap is beyond chance, and, with ``look``, how to see it."""
    if fall := _largest_fall(rows):
        yield _fall_sentence(rows, *fall)
        if look:
            yield f"Look: {preview_of(rows)}"
    yield from _gap_sentence(rows)


def preview_of(rows: Sequence[ResultRow]) -> str | None:
    """Return the command that shows a question where the accuracy falls most; None where it does not fall."""
    fall = _largest_fall(rows)
    if fall is None:
        return None
    task, length, variant = (str(fall[1][name]) for name in ("lookup", "length", "variant"))
    words = ["kshot", "preview", "-d", f"lookup:{task}", "--length", length, "--variant", variant, "--limit", "1"]
    return shlex.join(words)


def _largest_fall(rows: Sequence[ResultRow]) -> tuple[ResultRow, ResultRow] | None:
    """Return the cells between which the accuracy falls most, beyond chance."""
    found = [(before, after) for before, after in falls(rows) if before["ci95"][0] > before["chance"]]
    return max(found, key=lambda pair: pair[0]["value"] - pair[1]["value"], default=None)


def _fall_sentence(rows: Sequence[ResultRow], before: ResultRow, after: ResultRow) -> str:
    high, low = (figure_cell(row, (0, 0)).written for row in (before, after))
    return (
        f"{after['lookup']} ({after['variant']}) falls from {high} at length {before['length']} "
        f"to {low} at {after['length']}{_main_error(rows, after)}; chance is {after['chance']:.0f}."
    )


def _gap_sentence(rows: Sequence[ResultRow]) -> Iterator[str]:
    gaps = [row for row in rows if row.get("gap") and row["ahead"] is not None]
    if gaps:
        top = max(gaps, key=lambda row: abs(row["value"]))
        behind = top["worse"] if top["ahead"] == top["better"] else top["better"]
        low, high = sorted(abs(end) for end in top["ci95"])
        points = f"{abs(top['value']):.0f}{failure_mark(top)} points"
        yield (
            f"On the same records {top['ahead']} is {points} ahead of {behind} "
            f"(95 %: {low:.0f}–{high:.0f}, {shown_p(top)}) at length {top['length']} ({top['variant']})"
            f"{corrected_for(top['family'])}."
        )


def _main_error(rows: Sequence[ResultRow], cell: ResultRow) -> str:
    """Return the most frequent kind of error in a cell, with its share of the errors."""
    own = [row for row in rows if (row["model"], row["task"]) == (cell["model"], cell["task"])]
    errors = [row for row in own if "error" in row and row["value"]]
    if not errors:
        return ""
    top = max(errors, key=lambda row: row["value"])
    return f" ({top['value'] / (100 - cell['value']) * 100:.0f} % of the errors: {top['error']})"
