"""kshot runs --watch: runs of other terminals, while they run; each with its progress, and the latest others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Group, RenderableType
from rich.live import Live

from kshot.cli.screen import Screen
from kshot.cli.streams import flushed, protected, show
from kshot.core.errors import RunError
from kshot.core.visible import one_line
from kshot.report.cells import cell, shortened
from kshot.report.progress import progress_line, progress_lines
from kshot.report.quantities import duration
from kshot.report.runs_table import Clock, counted, headline, runs_table
from kshot.runs.listing import WatchedRuns
from kshot.runs.progress import ProgressState
from kshot.runs.run_state import RUNNING

_MAX_OTHERS = 5
_STARTS = "its progress is not known yet"


def watched_view(
    runs: Sequence[Mapping[str, Any]],
    progress: Mapping[str, ProgressState | None],
    folder: str | Path,
    size: tuple[int, int],
    clock: Clock,
) -> RenderableType:
    """Return the runs in ``progress``, which run, and below them others, as a screen of this width and height shows."""
    width, height = size
    room = max(1, height - 1)
    live = [run for run in runs if run["run"] in progress]
    others = [run for run in runs if run["run"] not in progress]
    fitting = len(live) if 2 * len(live) <= room else (room - 1) // 2  # each has a name and a bar
    lines: list[RenderableType] = []
    for at, run in enumerate(live[:fitting]):
        left = room - len(lines) - (fitting < len(live))
        lines.append(title(run, width))
        lines += _progress(progress[run["run"]], width, left // (fitting - at) - 1)
    if fitting < len(live):
        more = len(live) - fitting
        lines.append(_line(f"{more:,} more are running" if fitting else f"running: {more:,}"))
    for count in range(min(_MAX_OTHERS, len(others)), 0, -1):
        table = list(runs_table(others[:count], folder, width, clock))
        if len(lines) + bool(lines) + len(table) < room:
            lines += [*([cell("")] if lines else []), *table]
            break
    if len(lines) < room:
        lines.append(_line(footer(runs)))
    return Group(*lines)


def footer(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return how many runs there are."""
    return f"Ctrl-C ends this view · {counted(runs) if runs else 'there is no run yet'}"


def title(run: Mapping[str, Any], width: int) -> RenderableType:
    """Return the line above the progress of a run."""
    since = "" if run["seconds"] is None else f", {duration(run['seconds'])}"
    said = f"  {run['state']}{since}"
    name = cell(shortened(run["run"], max(1, width - len(said))), "bold", no_wrap=True, overflow="ellipsis")
    return name.append(said, "not bold")


def _line(text: str) -> RenderableType:
    """Return a line of its own, cut where the screen ends."""
    return cell(text, "dim", no_wrap=True, overflow="ellipsis")


def watched_lines(runs: Sequence[Mapping[str, Any]], progress: Mapping[str, ProgressState | None]) -> list[str]:
    """Return a line of plain text on each run that runs, for a log."""
    live = [run for run in runs if run["run"] in progress]
    return [f"{run['run']}: {_said(progress[run['run']])}" for run in live] or [
        f"no run is running ({counted(runs)})" if runs else "there is no run yet"
    ]


def end_line(run: Mapping[str, Any]) -> str:
    """Return how a run ended, as one line."""
    failed = f"{run['failed']:,} failed" if run["failed"] else ""
    why = None if run["state"] == "damaged" else run["why"]
    return f"{run['run']}: " + ", ".join(filter(None, (run["state"], headline(run), failed, why)))


def _said(state: ProgressState | None) -> str:
    return _STARTS if state is None else progress_line(state)


def _progress(state: ProgressState | None, width: int, height: int) -> list[RenderableType]:
    return [_line(_STARTS)] if state is None else [*progress_lines(state, width, height)]


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
