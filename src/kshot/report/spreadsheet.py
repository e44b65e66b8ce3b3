"""CSV and TSV for people who open them in a spreadsheet, which takes some texts for formulas and runs them."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable
from typing import IO, Any

from kshot.core.visible import visible

_FORMULA = re.compile(r"[\s\u200b-\u200f\ufeff]*[=+\-@＝＋－＠]|[\t\r\n]")
"""How a text begins that some spreadsheet reads as a formula, also after white space."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def spreadsheet_cell(value: Any) -> str | int | float:
    """Return a value for a cell: numbers as numbers, no value as an empty cell, texts so that none is a formula.

    A text that would be one gets an apostrophe before it, which spreadsheets take for "this is text". Control
    characters are shown as escapes.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    text = str(value)
    if _FORMULA.match(text) and not _NUMBER.fullmatch(text):
        text = f"'{text}"
    return visible(text)


def write_spreadsheet(file: IO[str], rows: Iterable[Iterable[Any]], delimiter: str = ",") -> None:
    """Write rows, the first of which is the header. Every text is quoted: no part of one becomes a cell of its own."""
    writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerows([spreadsheet_cell(value) for value in row] for row in rows)
