"""A comparison of runs on the screen: who is ahead, the figures, what differs, and the samples that flipped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import RenderableType

from kshot.core.records import ResultRow
from kshot.core.visible import one_line
from kshot.report.cells import SafeText, block, cell
from kshot.report.comparison_table import category_tables, task_tables
from kshot.report.comparison_words import GLUE, answers, warnings
from kshot.report.flips import Flip, flips_view
from kshot.report.setting_table import setting_table
from kshot.report.systems import shown_measures
from kshot.report.table import short_names
from kshot.runs.headline import headlines

if TYPE_CHECKING:
    from kshot.runs.comparing import Comparison

_SIDES = ("baseline", "run")
_COMPARED = (*_SIDES, "task", "run_task", "category")
"""What tells the tasks of a comparison apart."""


def comparison_view(
    comparison: Comparison,
    flips: Sequence[Flip],
    flipped: Sequence[ResultRow],
    *,
    width: int,
    everything: bool = False,
) -> Iterator[RenderableType]:
    """Draw a comparison for a terminal of this width; the smallest of many differences fold, but for ``everything``.

    ``flips`` are some of the samples that the rows ``flipped`` count as won or lost.
    """
    names = ShortNames(comparison.rows)
    every, parts = names.renamed(comparison.rows), names.renamed(comparison.categories)
    rows, categories = (every, parts) if everything else (main_rows(every), main_rows(parts))
    yield from (_wrapped(line, width) for line in answers(rows))
    yield from task_tables(rows, width=width, everything=everything)
    if left := len(every) - len(rows):
        yield cell(f"… and {left:,} more by other measures; --all shows them", "dim")
    yield from category_tables(categories, width=width, everything=everything)
    if comparison.settings:
        yield ""
        yield setting_table(comparison.settings, [run["label"] for run in comparison.runs], width)
    careful, notes = warnings(rows), comparison.notes
    if careful or notes:
        yield ""
    yield from (_wrapped(f"warning: {line}", width, "red") for line in careful)
    yield from (_wrapped(f"note: {line}", width) for line in notes)
    main = names.renamed(flipped)
    if any(row["won"] or row["lost"] for row in main):
        yield ""
        yield from flips_view([flip.renamed(names.labels) for flip in flips], main, width=width)


def comparison_sentences(comparison: Comparison) -> Iterator[str]:
    """Say who is ahead, without line breaks."""
    rows = ShortNames(comparison.rows).renamed(comparison.rows)
    return (one_line(line.replace(GLUE, " ")) for line in answers(main_rows(rows)))


def main_rows(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Return the rows without those of search by measures that no table shows."""
    shown = set(shown_measures([row for row in rows if row.get("kind") == "passages"]))
    return [row for row in rows if row.get("kind") != "passages" or row["metric"] in shown]


def headline_rows(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Return the rows of tasks or categories, each by the metric that stands for it."""
    whole = [row for row in main_rows(rows) if "average" not in row]
    return headlines(whole, lambda row: tuple(row.get(name) for name in _COMPARED))


def _wrapped(line: str, width: int, style: str = "") -> SafeText:
    """Return a line that is broken at its spaces, but for those that belong to one value."""
    lines = [""]
    for word in one_line(line).split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cell_len(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return block("\n".join(lines).replace(GLUE, " "), style)


class ShortNames:
    """The short names of models, and the labels of systems with them."""

    def __init__(self, rows: Sequence[ResultRow]) -> None:
        systems = {row[side]: (row[f"{side}_run"], row[f"{side}_model"]) for row in rows for side in _SIDES}
        self.models = short_names(dict.fromkeys(model for _, model in systems.values()))
        self.labels: dict[str, str] = {}
        for label, (run, model) in systems.items():
            named = label != run and label.endswith(model)
            self.labels[label] = label[: len(label) - len(model)] + self.models[model] if named else label

    def renamed(self, rows: Sequence[ResultRow]) -> list[ResultRow]:
        """Return rows with the short names."""
        return [
            {
                **row,
                **{side: self.labels[row[side]] for side in _SIDES},
                **{f"{side}_model": self.models[row[f"{side}_model"]] for side in _SIDES},
            }
            for row in rows
        ]
