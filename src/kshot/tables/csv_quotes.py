"""Where the quotes of a csv record are wrong; the csv module tells what, but not where."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class QuoteFault:
    """What is wrong: in which field (from 0), and how many lines below the start of the record."""

    what: str
    field: int
    lines: int


def quote_fault(text: str, delimiter: str) -> QuoteFault | None:
    """Find the first fault in the quotes of a record; None if they are in order."""
    plain_end = re.compile(f"[{re.escape(delimiter)}\r\n]")
    place = field = 0
    while place < len(text):
        if text[place] == '"':
            end = _closing(text, place)
            if end is None:
                return QuoteFault("a quote is opened and never closed", field, _lines(text, place))
            after = text[end + 1 : end + 2]
            if after not in {"", delimiter, "\r", "\n"}:
                shown = text[end + 1 : end + 1 + _SHOWN].splitlines()[0]
                return QuoteFault(f"text follows the closing quote: {shown!r}", field, _lines(text, end))
            place = end + 1
        else:
            found = plain_end.search(text, place)
            place = len(text) if found is None else found.start()
        if text[place : place + 1] != delimiter:
            return None  # the record ends here
        place, field = place + 1, field + 1
    return None


def _closing(text: str, start: int) -> int | None:
    """Return the place of the quote that closes the one at ``start``; two in a row stand for a quote in the text."""
    place = start + 1
    while (found := text.find('"', place)) >= 0:
        if text[found + 1 : found + 2] != '"':
            return found
        place = found + 2
    return None


def _lines(text: str, place: int) -> int:
    return text.count("\n", 0, place)
