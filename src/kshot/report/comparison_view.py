"""A comparison of runs as a table of data: the figures of both sides, their difference, its interval, p, and counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kshot.core.failed_parts import failure_mark, side_mark
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label
from kshot.report.comparison_words import digits_of, signed, task_name
from kshot.report.figure_cells import number
from kshot.report.verdicts import p_value
from kshot.report.view import Cell, Column, Content, TableView, Tone, count_cell, numbers, words

COUNTS = ("won", "lost", "both", "neither", "tied")
SYSTEMS = ("baseline system", "run system")
"""The columns with the names of what is compared."""

_VERDICTS: dict[str | None, tuple[str, Tone]] = {
    "better": ("ahead", "good"),
    "worse": ("behind", "bad"),
    None: ("open", ""),
}


def comparison_view(
    rows: Sequence[ResultRow],
    *,
    tasks: Sequence[str] | None = None,
    digits: Callable[[int], tuple[int, int]] = lambda few: (max(few, 2), few),
) -> TableView:
    """Return a row for each comparison; ``tasks`` are other names of their tasks. Counts that no row has are left out.

    ``digits`` returns those of figures and of intervals for those that the scale needs.
    """
    scales = {name: digits_of([row for row in rows if row["metric"] == name]) for name in {r["metric"] for r in rows}}
    held = [name for name in COUNTS if any(row.get(name) is not None for row in rows)]
    named = list(map(task_name, rows)) if tasks is None else tasks
    lines = [_line(row, task, digits(scales[row["metric"]]), held) for row, task in zip(rows, named, strict=True)]
    columns = [*words("task", "category", "metric"), Column("baseline", key=SYSTEMS[0]), Column("run", key=SYSTEMS[1])]
    columns += numbers("n", "baseline", "run", "difference", "95 %", "p")
    return TableView([*columns, *words("verdict"), *numbers(*held)], lines)


def _line(row: ResultRow, task: str, digits: tuple[int, int], held: Sequence[str]) -> list[Content]:
    p, difference = row["p_corrected"], difference_cell(row, digits)
    return [
        task,
        str(row.get("category", "")),
        Cell(metric_label(row), mark="" if row["higher_is_better"] else " ↓"),  # as the field marks what should be low
        str(row.get("baseline", "")),
        str(row.get("run", "")),
        count_cell(row["n"]),
        *(_side(row, side, digits[0]) for side in ("baseline", "run")),
        difference,
        difference,
        None if p is None else Cell(p_value(row), p),
        Cell(_VERDICTS[row["verdict"]][0], tone=difference.tone),
        *(None if row.get(name) is None else count_cell(row[name]) for name in held),
    ]


def difference_cell(row: ResultRow, digits: tuple[int, int]) -> Cell:
    """Return the run minus its baseline, with its interval, and whether it is ahead."""
    value, tone = row["difference"], _VERDICTS[row["verdict"]][1]
    if value is None:
        return Cell("–", tone=tone)
    ends = [Cell(signed(end, digits[1]), end) for end in row["ci95"] or ()]
    interval = (ends[0], ends[1]) if ends else None
    return Cell(signed(value, digits[0]), value, mark=failure_mark(row), tone=tone, interval=interval, signed=True)


def _side(row: ResultRow, side: str, digits: int) -> Cell:
    value = row[f"{side}_value"]
    return Cell("–" if value is None else number(value, digits), value, mark=side_mark(row, side))
