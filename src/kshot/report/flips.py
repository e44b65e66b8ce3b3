"""The samples whose answers flipped between two runs, one on a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table

from kshot.core.records import UNANSWERED, ResultRow
from kshot.report.cells import cell
from kshot.report.comparison_words import digits_of
from kshot.report.sample_responses import ReadResponse, read_response
from kshot.report.sample_texts import option_letter, written
from kshot.report.setting_table import cut
from kshot.report.table import number

_SIGNS = {True: ("+", "bold green"), False: ("-", "bold red")}
_MAX_HEADING, _MAX_NAME, _MIN_TEXT = 16, 20, 10
_GAP = 2
_LETTERS = 26


class Flip(NamedTuple):
    """A sample that flipped: what ``Comparison.flips`` says, and its rows in ``samples.jsonl`` of both runs."""

    found: ResultRow
    before: ResultRow
    after: ResultRow


def flips_view(flips: Sequence[Flip], won: int, lost: int, *, graded: bool, width: int) -> Iterator[RenderableType]:
    """Draw some of the samples that flipped; ``won`` and ``lost`` count all of them."""
    changed = "Changed" if graded else "Flipped"
    some = "" if len(flips) == won + lost else f"; {len(flips):,} of them" if flips else ""
    yield cell(f"{changed}: {won:,} won (+) and {lost:,} lost (-){some}", "bold")
    if flips:
        yield _table(flips, graded=graded, width=width)


def _table(flips: Sequence[Flip], *, graded: bool, width: int) -> Table:
    sides = {(flip.found["baseline"], flip.found["run"]) for flip in flips}
    labels = next(iter(sides)) if len(sides) == 1 else ("baseline", "run")
    labels = labels if max(map(cell_len, labels)) <= _MAX_HEADING else ("baseline", "run")
    names: list[tuple[str, list[str]]] = []
    if len({flip.found["task"] for flip in flips}) > 1:
        names.append(("task", [flip.found["task"] for flip in flips]))
    if len(sides) > 1:
        names.append(("runs", [f"{flip.found['baseline']} → {flip.found['run']}" for flip in flips]))
    names.append(("id", [flip.found["id"] for flip in flips]))
    if any(flip.found["category"] for flip in flips):
        names.append(("category", [flip.found["category"] or "" for flip in flips]))
    names = [(name, [cut(str(cell(text)), _MAX_NAME) for text in texts]) for name, texts in names]
    scores = [_scores(flip.found) for flip in flips] if graded else []
    texts = [[answer_text(flip.before), answer_text(flip.after), target_text(flip.before)] for flip in flips]
    fixed = [max(map(cell_len, (name, *cells))) for name, cells in names] + (
        [max(map(cell_len, scores))] if scores else []
    )
    room = max((width - 1 - _GAP - sum(fixed) - _GAP * len(fixed) - _GAP * 2) // 3, _MIN_TEXT)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    headings = ("", *(name for name, _ in names), *(cut(str(cell(label)), room) for label in labels), "target")
    for heading in (*headings, *(["score"] if graded else [])):
        table.add_column(heading, no_wrap=True)
    for at, flip in enumerate(flips):
        sign = cell(*_SIGNS[flip.found["won"]])
        own = [cell(cells[at]) for _, cells in names]
        said = [cell(cut(str(cell(text)), room)) for text in texts[at]]
        table.add_row(sign, *own, *said, *([cell(scores[at])] if graded else []))
    return table


def _scores(found: ResultRow) -> str:
    values = (found["baseline_score"], found["run_score"])
    digits = digits_of([{"baseline_value": values[0], "run_value": values[1]}])
    return " → ".join(number(value, digits) for value in values)


# ---- texts ----


def answer_text(row: ResultRow) -> str:
    """Return the answer of a sample on one line: the text of the option that was chosen, or what was said."""
    return _text(row, row.get("answer"), read_response(row, ""), "none")


def target_text(row: ResultRow) -> str:
    """Return what would have been right."""
    target = row.get("target")
    response = read_response(row, "")
    if isinstance(target, list):
        return " or ".join(_text(row, each, response, "") for each in target)
    return _text(row, target, response, "")


def _text(row: ResultRow, value: Any, response: ReadResponse, none: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and isinstance(row.get("answer"), int):  # an option
        if value == UNANSWERED:
            return none
        options = response.measured.texts
        if 0 <= value < len(options):
            return options[value]
        return option_letter(value) if 0 <= value < _LETTERS else str(value)
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        value = value["text"]
    if value is None:
        return none
    if isinstance(value, list):
        return ", ".join(written(each) for each in value)
    return " ".join(written(value).split())
