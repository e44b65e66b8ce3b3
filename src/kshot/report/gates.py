"""Gates for people: what was checked, what was found, and whether that passes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from kshot.core.records import ResultRow
from kshot.report.cells import cell
from kshot.report.table import number, short_names
from kshot.report.verdicts import shown_p
from kshot.runs.gate_checks import unpaired_samples

_MAX_LINES = 20
"""Failed checks on the screen; the rest is counted."""

_MAX_PASSED = 5
"""Checks of one kind that pass and have lines of their own."""


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
    rest = unpaired_samples(row)
    return f"{run} after {before}, {shown_p(row)}, {row['n']} paired" + (f" ({rest})" if rest else "")


def gate_subjects(rows: Sequence[ResultRow]) -> list[str]:
    """Return what each row is about: its task, and its model where there are several."""
    names = short_names(dict.fromkeys(str(row["model"]) for row in rows))
    return [row["task"] if len(names) < 2 else f"{row['task']} · {names[str(row['model'])]}" for row in rows]  # noqa: PLR2004


def gates_table(rows: Sequence[ResultRow]) -> Table:
    """Draw the checks, failed ones first. Many that pass are one line for each thing that they check."""
    told = list(zip(rows, gate_subjects(rows), strict=True))
    failed = [(row, subject) for row, subject in told if not row["passed"]]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 1))
    table.add_column("gate", no_wrap=True)
    for title in ("check", "task", "found"):
        table.add_column(title, overflow="fold")
    for row, subject in failed[:_MAX_LINES]:
        mark = cell("✗ failed", "bold red")
        table.add_row(mark, cell(gate_label(row)), cell(subject), cell(gate_finding(row)))
    if len(failed) > _MAX_LINES:
        table.add_row(cell("✗ failed", "bold red"), "", cell(f"… and {len(failed) - _MAX_LINES} more"), "")
    checks: dict[str, list[tuple[ResultRow, str]]] = {}
    for row, subject in told:
        if row["passed"]:
            checks.setdefault(gate_label(row), []).append((row, subject))
    for label, passed in checks.items():
        many = len(passed) > _MAX_PASSED
        lines = (
            [(f"{len(passed)} checks", _span([row for row, _ in passed]))]
            if many
            else [(subject, gate_finding(row)) for row, subject in passed]
        )
        for subject, finding in lines:
            table.add_row(cell("✓ passed", "green"), cell(label), cell(subject), cell(finding))
    return table


def _span(rows: Sequence[ResultRow]) -> str:
    """Return what many rows of one gate found."""
    values = sorted(row["value"] for row in rows if row.get("value") is not None)
    if values:
        return f"{number(values[0], 2)} to {number(values[-1], 2)}"
    if rows[0]["gate"] == "fail_if_worse":
        better = sum(row["verdict"] == "better" for row in rows)
        return f"{better} better, {len(rows) - better} not told apart"
    return f"0 of {sum(row['n'] for row in rows):,} failed"
