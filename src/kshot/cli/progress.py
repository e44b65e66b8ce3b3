"""A progress bar on stderr during a run."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kshot.cli.streams import protected, say
from kshot.core.protocols import Watcher
from kshot.core.visible import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from kshot.core.records import Outcome, Sample


_BAR_COLUMNS = 50
"""The terminal columns that the bar, the counts and the time take."""


class Progress(Watcher):
    """Shows a bar for each task on a terminal, and only the notes elsewhere."""

    def __init__(self) -> None:
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._done = self._failed = 0
        self._steps: dict[str, TaskID] = {}
        self._safe = ExitStack()
        if sys.stderr is not None and sys.stderr.isatty():
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as NewBar

            from kshot.cli.screen import Screen

            show = self._show

            class Counting(NewBar):
                """Reads the count when it is drawn: an update after every sample would cost as much as a sample."""

                def get_renderables(self) -> Iterable[RenderableType]:
                    show()
                    yield from super().get_renderables()

            self._bar = Counting(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[failed]}", style="red", markup=False),
                console=Screen(stderr=True),
                refresh_per_second=5,
            )

    def __enter__(self) -> Progress:  # noqa: PYI034 - Self needs Python 3.11
        """Start showing."""
        if self._bar is not None:
            self._bar.start()
            # While bars are shown, rich prints above them what others write, and obeys the sequences in it.
            self._safe.enter_context(protected())
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop showing; the bars stay."""
        self._show()
        self._safe.close()
        if self._bar is not None:
            self._bar.stop()

    def begin(self, task: str, model: str, total: int | None) -> None:
        """Start the bar of a task."""
        self._show()
        self._task = None  # until the next bar exists, updates must not go to the last one
        self._done = self._failed = 0
        if self._bar is not None:
            self._task = self._bar.add_task(self._fitting(one_line(f"{task} · {model}")), total=total, failed="")

    def answered(self, outcome: Outcome[Sample]) -> None:
        """Count a sample."""
        self._failed += outcome.failed
        self._done += 1

    def _show(self) -> None:
        if self._bar is not None and self._task is not None:
            failed = f"{self._failed} failed" if self._failed else ""
            self._bar.update(self._task, completed=self._done, failed=failed)

    def _fitting(self, text: str) -> str:
        """Shorten a label so that the bar and the counts have room; the end of a model's name tells it apart."""
        from rich.cells import cell_len, chop_cells, set_cell_size

        room = max((self._bar.console.width if self._bar else 80) - _BAR_COLUMNS, 20)
        if cell_len(text) <= room:
            return text
        head = (room - 1) // 3
        tail = chop_cells(text[::-1], room - 1 - head)[0][::-1]
        return f"{set_cell_size(text, head)}…{tail}"

    def note(self, text: str) -> None:
        """Show a note to the user."""
        if self._bar is not None:
            self._bar.console.print(f"note: {one_line(text)}")
        else:
            say(text)

    def step(self, label: str, done: int, total: int) -> None:
        """Show the progress of an index."""
        if self._bar is None:
            return
        if label not in self._steps:
            self._steps[label] = self._bar.add_task(one_line(label), total=total, failed="")
        self._bar.update(self._steps[label], completed=done, total=total)
        if done >= total:
            del self._steps[label]
