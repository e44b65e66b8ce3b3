"""Texts as they are compared with quotes: ``ftfy.fix_text`` mends broken characters, quotation marks and the like."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

# ftfy may change only these: characters beyond ASCII, control characters, CR, and & (it may begin an HTML entity).
_FIXABLE = re.compile(r"[^\t\n\f\x20-\x25\x27-\x7e]")


class Fixer:
    """``ftfy.fix_text`` with a cache of lines; it skips lines of plain ASCII, which ftfy would not change.

    ftfy works line by line. A line depends on those before it in one way only: after a ``<``, HTML entities are kept.
    """

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._lines: dict[tuple[str, bool], str] = {}

    def __call__(self, text: str) -> str:
        """Return exactly what ``ftfy.fix_text`` returns."""
        return text if _FIXABLE.search(text) is None else "".join(fixed for _, fixed in self.lines(text))

    def lines(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield each line as it is, and as it is fixed."""
        markup = False
        for line in io.StringIO(text, newline="\n"):
            yield line, line if _FIXABLE.search(line) is None else self._line(line, markup)
            markup = markup or "<" in line

    def _line(self, line: str, markup: bool) -> str:  # noqa: FBT001 - half of the cache key
        known = self._lines.get((line, markup))
        if known is None:
            from ftfy import fix_text

            known = fix_text(line, unescape_html=False if markup else "auto")
            self._lines[line, markup] = known
        return known
