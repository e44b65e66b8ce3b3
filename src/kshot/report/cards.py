"""The data cards of passage benchmarks as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from kshot.core.visible import one_line
from kshot.report.cells import block, cell

_MAX_TEXT_WIDTH = 72
_MAX_LISTED = 10


def card_view(card: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Show the counts of a question file, by chapter, and its oddities."""
    rows = [*card["chapters"], card["total"]]
    table = _table(list(rows[0]))
    for row in rows:
        style = "bold" if row is rows[-1] else ""
        table.add_row(
            *(cell(f"{value:.1f}" if isinstance(value, float) else value) for value in row.values()), style=style
        )
    yield table
    yield cell(f"{card['contexts']} contexts in all")
    yield from (cell(f"{count:>5}  {name}") for name, count in card["oddities"].items())


def ceiling_view(card: Mapping[str, Any], *, everything: bool) -> Iterator[RenderableType]:
    """Show the best score that the passages allow, and the components that none of them contains."""
    table = _table(["measure", "best possible"])
    for name, value in card["ceiling"].items():
        table.add_row(cell(name), f"{value:.4f}")
    counts = ", ".join(f"{chapter}: {count}" for chapter, count in card["by chapter"].items())
    yield cell(f"{card['passages']} passages ({counts})", style="bold", overflow="fold")
    yield table
    unreachable = card["unreachable"]
    yield cell(
        f"{card['components']} components: {card['empty']} have no context, {len(unreachable)} more lie in no passage "
        f"({card['contexts in no passage']} contexts: {card['contexts that straddle a border']} straddle a border, "
        f"{card['contexts not in the text']} are not in the text)."
    )
    shown = unreachable if everything else unreachable[:_MAX_LISTED]
    listed = _table(["question", "component", "why"])
    for row in shown:
        text = one_line(" ".join(row["component"].split()))
        whole = everything or len(text) <= _MAX_TEXT_WIDTH
        listed.add_row(
            cell(row["question"]), cell(text if whole else text[: _MAX_TEXT_WIDTH - 1] + "…"), cell(row["why"])
        )
    if shown:
        yield listed
    if len(shown) < len(unreachable):
        yield cell(f"… and {len(unreachable) - len(shown)} more; --all shows them")


def question_view(card: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Show one question, its answer and context, and the passages that contain each component."""
    yield block(card["question"], style="bold")
    yield block(card["answer"])
    for item in card["question_context"]:
        for text in item.get("context", ()):
            yield block(f"  the text on the question: {text}", style="dim")
    for number, component in enumerate(card["components"], start=1):
        passages = ", ".join(component["passages"]) or ("in no passage" if component["quotes"] else "no quote shows it")
        yield block(f"{number}. {component['text']}\n   → {passages}")
        yield from (block(f"   “{quote}”", style="dim") for quote in component["quotes"])


def _table(columns: list[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        table.add_column(
            cell(name), justify="left" if index == 0 or name in {"component", "why"} else "right", overflow="fold"
        )
    return table
