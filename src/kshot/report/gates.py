"""Gates for people: what was checked, what was found, and whether that passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from rich.table import Table

from kshot.core.failed_parts import failure_mark, mark_legend
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label
from kshot.report.cells import SafeText, block, broken, cell, fair_width
from kshot.report.figures import marked_figure, number, short_names
from kshot.report.verdicts import shown_p
from kshot.runs.baseline_checks import unpaired_samples, why_left_out

_MAX_LINES = 20
"""Failed checks on the screen; the rest is counted."""

_MAX_ALIKE = 3
"""Checks of one kind that pass and have lines of their own; those that all found the same have one line."""

_GAP, _MIN_COLUMN = 2, 8
"""The space between columns, and how narrow one may become."""

_MARKS = {True: ("✓ passed", "green"), False: ("✗ failed", "bold red"), None: ("– skipped", "")}
_UNDECIDED = ("! error", "bold red")


def gate_label(row: ResultRow) -> str:
    """Return what a row checks, in few words."""
    if row["gate"] == "fail_under":
        return f"{metric_label(row)} {'at least' if row['higher_is_better'] else 'at most'} {row['threshold']:g}"
    if row["gate"] == "fail_if_worse":
        other = row.get("baseline_model", row["model"]) != row["model"]  # the subject says which model it is if not
        return f"{metric_label(row)} not worse than {row['baseline' if other else 'baseline_run']}"
    return "no failed sample" if row["gate"] == "fail_on_failed" else "the check can be made"


def gate_finding(row: ResultRow) -> str:
    """Return what a row found, in few words."""
    if row["gate"] is None:
        return str(row["reason"])
    if row["gate"] == "fail_under":
        return f"no value{failure_mark(row)}" if row["value"] is None else marked_figure(row)
    if row["gate"] == "fail_on_failed":
        lost = f", {row['failed_replies']} replies failed" if row["failed_replies"] else ""
        return f"{row['failed']} of {row['n'] + row['failed']} failed{lost}"
    if row["passed"] is None:
        return why_left_out(row)
    if row["difference"] is None or row["p_corrected"] is None:
        return f"not comparable, {row['failed_run']} failed"
    run, before = (marked_figure(row, side=side) for side in ("run", "baseline"))
    return f"{run} after {before}, {shown_p(row)}"


def gate_subjects(rows: Sequence[ResultRow]) -> list[str]:
    """Return what each row is about: its task, and its model where there are several."""
    names = short_names(dict.fromkeys(str(row["model"]) for row in rows if "model" in row))
    return [_subject(str(row["task"]), row, names) if "task" in row else "" for row in rows]


def _subject(what: str, row: ResultRow, names: dict[str, str]) -> str:
    return what if len(names) < 2 else f"{what} · {names[str(row['model'])]}"  # noqa: PLR2004 - several models


class _GateLine(NamedTuple):
    """A line of the table: passed or not, what was checked, of which task, and what was found."""

    mark: SafeText
    check: SafeText
    task: SafeText
    found: SafeText


def gates_table(rows: Sequence[ResultRow], width: int) -> Table:
    """Draw the checks, failed ones first. Names that are too wide for this width are broken where their parts end."""
    lines = list(_gate_lines(rows))
    marks, *others = (max(each.cell_len for each in column) for column in zip(*lines, strict=True))
    most = fair_width(others, width - marks - _GAP * len(others), _MIN_COLUMN)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 1))
    table.add_column("gate", no_wrap=True)
    for title, wide in zip(("check", "task", "found"), others, strict=True):
        table.add_column(title, overflow="fold", max_width=max(min(wide, most), len(title)))
    for line in lines:
        table.add_row(line.mark, _fitting_words(line.check, most), _fitting_words(line.task, most), line.found)
    return table


def _fitting_words(text: SafeText, width: int) -> SafeText:
    """Break the words that are wider than this; the table itself breaks between words."""
    return block(" ".join(broken(cell(word), width).plain for word in text.plain.split(" ")))


def _gate_lines(rows: Sequence[ResultRow]) -> Iterator[_GateLine]:
    """Yield the lines, failed ones first. Many that pass are one line for each thing that they check."""
    told = list(zip(rows, gate_subjects(rows), strict=True))
    failed = [(row, subject) for row, subject in told if row["passed"] is False]
    for row, subject in failed[:_MAX_LINES]:
        mark = cell(*(_MARKS[False] if row["gate"] is not None else _UNDECIDED))
        yield _GateLine(mark, cell(gate_label(row)), cell(subject), cell(gate_finding(row)))
    if len(failed) > _MAX_LINES:
        yield _GateLine(cell(*_MARKS[False]), cell(""), cell(f"… and {len(failed) - _MAX_LINES} more"), cell(""))
    names = short_names(dict.fromkeys(str(row["model"]) for row in rows if "model" in row))
    for passed in (None, True):
        for alike in _alike([pair for pair in told if pair[0]["passed"] is passed]):
            for subject, finding in _lines(alike, names):
                yield _GateLine(cell(*_MARKS[passed]), cell(gate_label(alike[0][0])), cell(subject), cell(finding))


def _alike(told: Sequence[tuple[ResultRow, str]]) -> list[list[tuple[ResultRow, str]]]:
    """Return together what checks the same; of what is skipped, what is so of one model for one reason."""
    found: dict[tuple[str, ...], list[tuple[ResultRow, str]]] = {}
    for row, subject in told:
        why = () if row["passed"] else (str(row["model"]), gate_finding(row))
        found.setdefault((gate_label(row), *why), []).append((row, subject))
    return list(found.values())


def _lines(alike: Sequence[tuple[ResultRow, str]], names: dict[str, str]) -> list[tuple[str, str]]:
    same = alike[0][0]["passed"] is None or alike[0][0]["gate"] == "fail_on_failed"
    if len(alike) <= (1 if same else _MAX_ALIKE):
        return [(subject, gate_finding(row)) for row, subject in alike]
    rows = [row for row, _ in alike]
    many = f"{len(rows)} checks"
    one_model = len({row["model"] for row in rows}) == 1
    return [(_subject(many, rows[0], names) if one_model else many, _span(rows))]


def _span(rows: Sequence[ResultRow]) -> str:
    """Return what many rows of one gate found."""
    values = sorted(row["value"] for row in rows if row.get("value") is not None)
    if rows[0]["passed"] is None:
        return gate_finding(rows[0])
    if values:
        return f"{number(values[0], 2)} to {number(values[-1], 2)}{max(map(failure_mark, rows))}"
    if rows[0]["gate"] == "fail_if_worse":
        better = sum(row["verdict"] == "better" for row in rows)
        return f"{better} better, {len(rows) - better} not told apart{max(map(failure_mark, rows))}"
    return f"0 of {sum(row['n'] for row in rows):,} failed"


def pairing_lines(rows: Sequence[ResultRow]) -> Iterator[str]:
    """Say once for each baseline how many samples were paired, and how many were not."""
    compared = [row for row in rows if row["gate"] == "fail_if_worse" and "only_run" in row and "average" not in row]
    for path in dict.fromkeys(row["baseline_path"] for row in compared):
        of_path = [row for row in compared if row["baseline_path"] == path]
        pairs = {(row["baseline_model"], row["run_model"], row["task"]): row for row in of_path}.values()
        counts = ("n", "only_baseline", "only_run", "failed_baseline", "failed_run")
        total = {name: sum(row[name] for row in pairs) for name in counts}
        left = unpaired_samples(total)
        label = of_path[0]["baseline_run"]
        yield f"compared with {label}: {total['n']:,} samples paired" + (f"; not paired: {left}" if left else "")


def gate_legend(rows: Sequence[ResultRow]) -> list[str]:
    """Say what the marks of the figures that gates found mean."""
    return mark_legend(row for row in rows if row["gate"] in {"fail_under", "fail_if_worse"})


def verdict_of(rows: Sequence[ResultRow]) -> str:
    """Say how many checks passed, in one sentence."""
    failed = sum(row["passed"] is False and row["gate"] is not None for row in rows)
    passed = sum(row["passed"] is True for row in rows)
    decided = failed + passed
    skipped = sum(row["passed"] is None for row in rows)
    errors = sum(row["gate"] is None for row in rows)
    parts = chain(
        [f"{failed} of {decided} checks failed"] if failed else [],
        [f"all {passed} checks passed" if passed > 1 else "the check passed"] if passed and not failed else [],
        [f"{errors} checks could not be made" if errors > 1 else "a check could not be made"] if errors else [],
        [f"{skipped} not compared"] if skipped else [],
    )
    return ", ".join(parts)
