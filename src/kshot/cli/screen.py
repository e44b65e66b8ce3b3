"""The terminal that tables and bars are drawn on."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from kshot.cli.streams import unprotected
from kshot.core.visible import visible

_ENDS = re.compile(" +(?=\n)")
"""The spaces with which rich fills the lines of a table."""


class _Trimmed:
    """A file that gets lines without spaces at their ends; on a terminal they do no harm, and colours end there."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(_ENDS.sub("", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Screen(Console):
    """A console whose colours are kshot's own: texts are literal, and safe before they are measured and coloured.

    ``[red]`` and ``:smile:`` are parts of names here, not markup. A reader who closes the pipe is not an error.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        """Draw on stdout, or on stderr."""
        file = unprotected(sys.stderr if stderr else sys.stdout)
        super().__init__(file=file, soft_wrap=False, markup=False, emoji=False, highlight=False)
        if not self.is_terminal:
            self.file = cast("TextIO", _Trimmed(file))

    def render_str(self, text: str, **options: Any) -> Text:
        """Make a text of a string, which is measured as it will be seen."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Draw; every part of a text is made safe. Control segments are rich's own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Raise the error; the command handles it."""
        raise BrokenPipeError
