"""Gates for people: what was checked, what was found, and whether that passes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from kshot.core.records import ResultRow
from kshot.report.cells import cell
from kshot.report.table import number, short_names
from kshot.report.verdicts import shown_p

_MAX_LINES = 20
"""Checks on the screen: those that failed come first, and the rest is counted."""


def gate_label(row: ResultRow) -> str:
    """Return what a row checks, in few words."""
    if row["gate"] == "fail_under":
        return f"{row['metric']} {'at least' if row['higher_is_better'] else 'at most'} {row['threshold']:g}"
    if row["gate"] == "fail_if_worse":
        return f"{row['metric']} not worse than {row['baseline']}"
    return "no failed sample"


def gate_finding(row: ResultRow) -> str:
    """Return what a row found, in few words."""
    if row["gate"] == "fail_under":
        return "no value" if row["value"] is None else number(row["value"], 2)
    if row["gate"] == "fail_on_failed":
        lost = f", {row['failed_replies']} replies failed" if row["failed_replies"] else ""
        return f"{row['failed']} of {row['n'] + row['failed']} failed{lost}"
    if row["difference"] is None or row["p_corrected"] is None:
        return f"not comparable, {row['failed_run']} failed"
    values = [row["run_value"], row["baseline_value"]]
    run, before = ("–" if value is None else number(value, 2) for value in values)
    return f"{run} after {before}, {shown_p(row)}, {row['n']} paired"


def gate_subjects(rows: Sequence[ResultRow]) -> list[str]:
    """Return what each row is about: its task, and its model where there are several."""
    names = short_names(dict.fromkeys(str(row["model"]) for row in rows))
    return [row["task"] if len(names) < 2 else f"{row['task']} · {names[str(row['model'])]}" for row in rows]  # noqa: PLR2004


def gates_table(rows: Sequence[ResultRow]) -> Table:
    """Draw the checks, failed ones first; of many that pass, the first."""
    order = sorted(zip(rows, gate_subjects(rows), strict=True), key=lambda pair: pair[0]["passed"])
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 1))
    table.add_column("gate", no_wrap=True)
    for title in ("check", "task", "found"):
        table.add_column(title, overflow="fold")
    for row, subject in order[:_MAX_LINES]:
        mark = Text("✓ passed", "green") if row["passed"] else Text("✗ failed", "bold red")
        table.add_row(mark, cell(gate_label(row)), cell(subject), cell(gate_finding(row)))
    if rest := order[_MAX_LINES:]:
        failed = sum(not row["passed"] for row, _ in rest)
        table.add_row(Text("…", "dim"), cell(f"{len(rest) - failed} more passed, {failed} more failed", "dim"), "", "")
    return table
