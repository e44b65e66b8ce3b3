"""The words of TREC files, whose columns are separated by white space."""

from __future__ import annotations

from kshot.core.errors import DataError
from kshot.core.visible import one_line


def trec_word(text: str, what: str) -> str:
    """Return an id as it is. One that would be several columns or lines, or none, is refused: readers would err."""
    if text.split() != [text] or one_line(text) != text:
        raise DataError(
            f"a TREC file cannot hold the {what} {text!r}",
            hint="It must be one word without spaces and control characters; rename it in the data.",
        )
    return text
