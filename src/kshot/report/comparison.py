"""A comparison of runs on the screen: who is ahead, the figures, what differs, and the samples that flipped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from kshot.core.records import ResultRow
from kshot.core.visible import one_line
from kshot.report.comparison_table import category_tables, task_tables
from kshot.report.comparison_words import GLUE, answers, warnings
from kshot.report.setting_table import setting_table
from kshot.report.table import short_names

if TYPE_CHECKING:
    from kshot.runs.comparing import Comparison


def comparison_view(comparison: Comparison, *, width: int, everything: bool = False) -> Iterator[RenderableType]:
    """Draw a comparison for a terminal of this width; the smallest of many differences fold, but for ``everything``."""
    rows, categories = _with_short_names(comparison.rows), _with_short_names(comparison.categories)
    yield from (_wrapped(line, width) for line in answers(rows))
    yield from task_tables(rows, width=width, everything=everything)
    yield from category_tables(categories, width=width, everything=everything)
    if comparison.settings:
        yield ""
        yield setting_table(comparison.settings, [run["label"] for run in comparison.runs], width)
    careful, notes = list(warnings(rows)), comparison.notes
    if careful or notes:
        yield ""
    yield from (_wrapped(f"warning: {line}", width, "red") for line in careful)
    yield from (_wrapped(f"note: {line}", width) for line in notes)


def _wrapped(line: str, width: int, style: str = "") -> Text:
    """Return a line that is broken at its spaces, but for those that belong to one value."""
    lines = [""]
    for word in one_line(line).split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cell_len(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return Text("\n".join(lines).replace(GLUE, " "), style)


def _with_short_names(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Return the rows with the short names of models in the labels of systems."""
    sides = ("baseline", "run")
    names = short_names(dict.fromkeys(row[f"{side}_model"] for row in rows for side in sides))
    shortened = []
    for row in rows:
        labels = {}
        for side in sides:
            label, model = row[side], row[f"{side}_model"]
            if label != row[f"{side}_run"] and label.endswith(model):
                labels[side] = label[: len(label) - len(model)] + names[model]
        shortened.append({**row, **labels})
    return shortened
