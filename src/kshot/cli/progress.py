"""How far a run is, on stderr: bars on a terminal, a line every half minute elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from kshot.cli.streams import protected, say
from kshot.core.visible import one_line
from kshot.runs.progress import ProgressTracker, Ticker

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from kshot.cli.screen import Screen

LINE_SECONDS = 30.0
"""The time between two lines where there is no terminal; a shorter run says nothing."""
_REFRESH_PER_SECOND = 4


class Progress(ProgressTracker):
    """Shows a run while it is under way. A terminal keeps nothing of it, since the results follow."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """Take the clock by which lines are due."""
        super().__init__(clock=clock)
        self._due = clock() + LINE_SECONDS
        self._safe = ExitStack()
        self._stderr = sys.stderr  # while a logger is called, what is printed there is thrown away
        self._live: Live | None = None
        self._ticker: Ticker | None = None
        if sys.stderr is not None and sys.stderr.isatty():
            self._live = self._bars()

    def _bars(self) -> Live | None:
        from rich.live import Live

        from kshot.cli.screen import Screen

        screen = Screen(stderr=True)
        if screen.is_dumb_terminal:  # it cannot move its cursor
            return None
        return Live(
            console=screen,
            get_renderable=partial(self._view, screen),
            refresh_per_second=_REFRESH_PER_SECOND,
            transient=True,
        )

    def __enter__(self) -> Progress:  # noqa: PYI034 - Self needs Python 3.11
        """Start showing."""
        if self._live is None:
            self._ticker = Ticker(1.0, self.tick)
            self._ticker.start()
        else:
            self._live.start()
            # While bars are shown, rich prints above them what others write, and obeys the sequences in it.
            self._safe.enter_context(protected())
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Stop showing; of a run that did not finish one line stays."""
        self._safe.close()
        if self._ticker is not None:
            self._ticker.stop()
        if self._live is not None:
            self._live.stop()
            state = self.stopped_state()
            if kind is not None and state.tasks:
                from kshot.report.progress import overall_line

                self._live.console.print(overall_line(state, self._live.console.width))

    def tick(self) -> None:
        """Print a line if it is time for one."""
        if self._clock() < self._due:
            return
        self._due = self._clock() + LINE_SECONDS
        from kshot.report.progress import progress_line

        with suppress(OSError, ValueError):  # nobody reads it any more
            say(progress_line(self.state()), self._stderr)

    def note(self, text: str) -> None:
        """Show a note to the user, above the bars."""
        if self._live is not None:
            self._live.console.print(f"note: {one_line(text)}")
        else:
            say(text, self._stderr)

    def _view(self, screen: Screen) -> RenderableType:
        from kshot.report.progress import progress_view

        lines = max(1, screen.height - 1)
        return progress_view(self.state(), screen.width, lines, ascii_only=screen.options.ascii_only)
