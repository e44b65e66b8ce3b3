"""Texts of tables: foreign names are literal and safe before they are measured, and fit into their columns."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.text import Text

from kshot.core.visible import one_line, visible

SafeText: TypeAlias = Text
"""A text that was made by the functions below; other modules make none of their own."""

_MIN_ROOM = 6
"""Columns in which the two ends of a text can be told."""


def cell(text: object, style: str = "", **options: Any) -> Text:
    """Return a text on one line: a name, a figure, a title."""
    return Text(one_line(text), style, **options)


def block(text: str, style: str = "", **options: Any) -> Text:
    """Return a text that may have several lines: a question, an answer, a quote."""
    return Text(visible(text), style, **options)


def assembled(*parts: Text | str | tuple[str, str]) -> Text:
    """Return texts one after the other; a string is literal, a pair is a string and its style."""
    made = [
        block(*part) if isinstance(part, tuple) else block(part) if isinstance(part, str) else part for part in parts
    ]
    return Text.assemble(*made)


def joined(between: str, parts: Iterable[Text]) -> Text:
    """Return texts with another one between them."""
    return block(between).join(parts)


def shortened(text: object, room: int) -> str:
    """Return a text on one line, cut in its middle if it is too wide: the ends of names tell them apart."""
    line = one_line(text)
    if cell_len(line) <= room:
        return line
    if room < _MIN_ROOM:
        return set_cell_size(line, max(0, room - 1)) + "…" if room > 0 else ""
    head = (room - 1) // 3
    tail = chop_cells(line[::-1], room - 1 - head)[0][::-1]
    return f"{set_cell_size(line, head).rstrip()}…{tail.lstrip()}"


def shared_start(*texts: str) -> str:
    """Return what all texts begin with."""
    return os.path.commonprefix(texts)  # noqa: RUF071 - these are texts, compared by character


_PARTS = re.compile(r"[^\s:|_/,.·→-]*[\s:|_/,.·→-]*")
"""A part of a name, with the separator after it."""


def fair_width(widths: Sequence[int], room: int, least: int) -> int:
    """Return how wide each of several columns may be at most, so that all fit; narrow ones give what they spare."""
    most = max(widths, default=least)
    while most > least and sum(min(width, most) for width in widths) > room:
        most -= 1
    return most


def cut(text: str, width: int) -> str:
    """Return a text of at most so many columns, with a mark where some of it is left out."""
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


def broken(text: SafeText, width: int) -> SafeText:
    """Return a name in lines of so many columns, which end where its parts do, if those are not too wide."""
    lines = [""]
    for part in _PARTS.findall(text.plain):
        for piece in [part] if cell_len(part) <= width else chop_cells(part, width):
            if cell_len(lines[-1] + piece.rstrip()) > width:
                lines.append("")
            lines[-1] += piece
    return block("\n".join(line.rstrip() for line in lines), str(text.style))
