"""Fitting texts into the columns of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len, chop_cells, set_cell_size

from kshot.report.cells import SafeText, block

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
