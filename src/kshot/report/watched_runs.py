"""What ``kshot runs --watch`` shows: runs that run, each with its progress, and the latest others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from kshot.report.cells import cell, shortened
from kshot.report.progress import progress_line, progress_lines
from kshot.report.quantities import duration
from kshot.report.runs_table import Clock, counted, headline, runs_table

if TYPE_CHECKING:
    from kshot.runs.progress import ProgressState

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
