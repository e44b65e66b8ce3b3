"""``kshot runs --watch``: runs of other terminals, while they run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from rich.live import Live

from kshot.cli.screen import Screen
from kshot.cli.streams import flushed, protected, show
from kshot.core.errors import RunError
from kshot.core.visible import one_line
from kshot.report.runs_table import Clock
from kshot.report.watched_runs import end_line, watched_lines, watched_view
from kshot.runs.listing import WatchedRuns
from kshot.runs.progress import ProgressState
from kshot.runs.run_state import RUNNING

_SECONDS = 1.0
_LINE_SECONDS = 30.0
"""The time between two lines where there is no terminal."""
_SHARE = 0.2
"""Looking takes no more of the time than that: a folder may have many runs."""

Records: TypeAlias = list[dict[str, Any]]
_Display: TypeAlias = Callable[[Sequence[Mapping[str, Any]], Mapping[str, ProgressState | None]], None]


def watch(folder: Path, choose: Callable[[Records], Records], present: Callable[[], datetime], *, one: bool) -> int:
    """Show the runs in a folder until Ctrl-C, or one run until it ends. ``choose`` leaves out what is not asked for."""
    watched = WatchedRuns(folder)
    with ExitStack() as stack:
        console = Screen()
        display = _log()
        if console.is_terminal and not console.is_dumb_terminal:
            display = _screen(stack, console, folder, present, transient=one)
        while True:
            began = time.monotonic()
            runs = choose(watched.look(present()))
            if one and not runs:
                raise RunError("the run folder is gone", where=str(folder))
            progress = {run["run"]: watched.progress(run) for run in runs if run["state"] in RUNNING}
            if one and not progress:
                break
            display(runs, progress)
            pause(max(_SECONDS, (time.monotonic() - began) / _SHARE))
    show(one_line(end_line(runs[0])))
    return 0


def pause(seconds: float) -> None:
    """Wait for the next look."""
    time.sleep(seconds)


def _screen(
    stack: ExitStack, console: Screen, folder: Path, present: Callable[[], datetime], *, transient: bool
) -> _Display:
    """Return what draws the runs in place: whole, and only if something has changed, so that nothing flickers."""
    live = stack.enter_context(Live(console=console, auto_refresh=False, transient=transient))
    stack.enter_context(protected())  # rich prints above the view what others write, and obeys the sequences in it

    drawn: Any = None

    def display(runs: Sequence[Mapping[str, Any]], progress: Mapping[str, ProgressState | None]) -> None:
        nonlocal drawn
        view = watched_view(runs, progress, folder, console.size, Clock(present()))
        looks = console.size, console.render_lines(view, pad=False)
        if looks != drawn:
            drawn = looks
            live.update(view, refresh=True)

    return display


def _log() -> _Display:
    """Return what prints a line on each run that runs, every half minute and when another one runs."""
    last: tuple[float, list[str]] | None = None

    def display(runs: Sequence[Mapping[str, Any]], progress: Mapping[str, ProgressState | None]) -> None:
        nonlocal last
        now, names = time.monotonic(), sorted(progress)
        if last is not None and last[1] == names and now - last[0] < _LINE_SECONDS:
            return
        last = now, names
        with flushed():  # who reads it waits for it
            for line in watched_lines(runs, progress):
                show(one_line(line))

    return display
