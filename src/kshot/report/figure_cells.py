"""Figures as cells: written for people once, with their marks, intervals, exact numbers and places."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kshot.core.failed_parts import failure_mark, side_mark
from kshot.core.records import ResultRow
from kshot.report.view import Cell, Tone
from kshot.runs.headline import finite

_LARGE = 1e6
"""From here on, all digits of a number would break a table."""

_LEADING_ZERO = re.compile(r"(?<!\d)0(?=\.)")


def number(value: float, digits: int, sign: str = "") -> str:
    """Write a number with so many digits after the point, or with three digits and its power of ten if it is large.

    ``sign`` is ``+`` to show it always.
    """
    return f"{value:{sign}.{digits}f}" if abs(value) < _LARGE else f"{value:{sign}.2e}"


def marked_figure(row: ResultRow, digits: int = 2, side: str = "") -> str:
    """Write a figure and its mark if many samples failed; of a comparison, that of a side (``baseline``, ``run``)."""
    value, mark = (row[f"{side}_value"], side_mark(row, side)) if side else (row.get("value"), failure_mark(row))
    return ("–" if value is None else number(value, digits)) + mark


def figure_cell(
    row: ResultRow,
    digits: tuple[int, int] | None = None,
    name: str = "value",
    sign: str = "",
    *,
    source: str | None = None,
    tone: Tone = "",
) -> Cell:
    """Return a figure of a row with its interval. ``digits``: for both, if not those of all tables.

    ``name`` is ``difference`` in comparisons.
    """
    value, mark = finite(row.get(name)), failure_mark(row)
    if value is None:
        return Cell("–", mark=mark)
    ends = ends_of(row)
    if digits is None and row.get("kind") == "passages":
        written, *of_ends = _of_search(row, ends)
    else:
        more, few = digits or (2, 1)
        written, of_ends = number(value, more, sign), [number(end, few, sign) for end in ends]
    pair = [Cell(text, end, source, f"ci95.{at}") for at, (text, end) in enumerate(zip(of_ends, ends, strict=True))]
    interval = (pair[0], pair[1]) if pair else None
    return Cell(written, value, source, name, mark, tone, interval, signed=bool(sign))


def ends_of(row: ResultRow) -> Sequence[float]:
    """Return the ends of the interval of a figure, or nothing; a file of a stranger may have anything there."""
    given = row.get("ci95")
    found = [finite(end) for end in given] if isinstance(given, (list, tuple)) else []
    known = [end for end in found if end is not None]
    return known if len(known) == len(found) == len(("low", "high")) else ()


def _of_search(row: ResultRow, ends: Sequence[float]) -> list[str]:
    """Return a figure of search as it is written, and then the two ends of its interval, if it has one."""
    digits = 1 if row["value"] > 1 or max(ends, default=0) > 1 else 3
    return [f"{row['value']:.{digits}f}", *(_LEADING_ZERO.sub("", f"{end:.{digits}f}") for end in ends)]


def field_cell(row: ResultRow, name: str, digits: int | None = None, *, source: str | None = None) -> Cell:
    """Return a field of a row, such as ``n`` or ``won``, with so many digits after the point."""
    value, mark = finite(row.get(name)), failure_mark(row) if name == "value" else ""
    if value is None:
        return Cell("–", mark=mark)
    exact = row[name] if digits is None else value
    return Cell(f"{exact:,}" if digits is None else number(value, digits), exact, source, name, mark)
