"""``kshot runs [DIR]``: which runs there are, and how each ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

_STATES = ("done", "stopped", "failed", "killed", "running", "damaged")
_SORTS = ("when", "headline", "cost", "duration", "name")
_HOW = "kshot run makes one"
_MAX_ON_SCREEN = 50
"""Runs that a terminal shows unless --limit says otherwise: more than that nobody reads."""


def add(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    command.description = "List the runs in a folder, the newest first; or show one run with its sessions and settings."
    command.add_argument("folder", nargs="?", metavar="DIR", help="folder with runs, or one run folder (default: runs)")
    command.add_argument("--sort", choices=_SORTS, default="when", help="what to sort by (default: when)")
    command.add_argument("--limit", type=int, metavar="N", help="show only the first N (default: 50 on a terminal)")
    command.add_argument("--state", choices=_STATES, help="show only runs in this state")
    command.add_argument("--model", metavar="TEXT", help="show only runs of a model whose name has this text")
    command.add_argument("--dataset", metavar="TEXT", help="show only runs on a dataset whose name has this text")
    command.add_argument(
        "--watch", action="store_true", help="show what runs, until Ctrl-C, or until the run ends that DIR names"
    )
    command.add_argument("--json", action="store_true", help="print JSON")


def execute(parsed: argparse.Namespace) -> int:
    """List runs, or show one."""
    from pathlib import Path

    from kshot.core.errors import UsageError
    from kshot.runs.listing import USUAL_FOLDER, is_run_folder

    if parsed.limit is not None and parsed.limit < 1:
        raise UsageError(f"--limit is {parsed.limit}; it must be 1 or more")
    if parsed.folder == "":
        raise UsageError("the name of the folder is empty", hint="Name a folder, or leave it out.")
    if parsed.watch and parsed.json:
        raise UsageError("--watch has no JSON", hint="kshot runs --json prints what is so now.")
    folder = Path(parsed.folder or USUAL_FOLDER).expanduser()
    unused = parsed.folder is None and not folder.exists()  # nobody has named it, and nothing was run yet
    if parsed.watch:
        return _watch(folder, parsed, unused=unused)
    if is_run_folder(folder):
        return _show_one(folder, as_json=parsed.json)
    _show(folder, parsed, unused=unused)
    return 0


def _watch(folder: Path, parsed: argparse.Namespace, *, unused: bool) -> int:
    from kshot.cli.runs_watch import watch
    from kshot.core.errors import UsageError
    from kshot.runs.listing import is_run_folder
    from kshot.runs.run_state import RUNNING

    if not folder.is_dir() and not unused:
        raise UsageError("there is no such folder", where=str(folder), hint="Name a folder with runs, or one run.")
    one = is_run_folder(folder)

    def choose(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the runs to show: those that run come first."""
        found = sorted(_chosen(runs, parsed), key=lambda run: run["state"] not in RUNNING)
        return runs if one else found[: parsed.limit]

    return watch(folder, choose, present, one=one)


def present() -> datetime:
    """Return the present time."""
    from datetime import datetime, timezone

    return datetime.now(timezone.utc)


def _show(folder: Path, parsed: argparse.Namespace, *, unused: bool) -> None:
    from kshot.cli.screen import Screen
    from kshot.cli.streams import say, show_json
    from kshot.core.failed_parts import mark_legend
    from kshot.core.visible import one_line
    from kshot.report.runs_table import MORE, Clock, counted, has_more, runs_table
    from kshot.runs.listing import newest_below

    console = Screen()
    limit = _MAX_ON_SCREEN if parsed.limit is None and console.is_terminal and not parsed.json else parsed.limit
    as_they_come = parsed.sort == "when" and parsed.state is parsed.model is parsed.dataset is None
    found, total = ([], 0) if unused else newest_below(folder, present(), limit if as_they_come else None)
    runs = _chosen(found, parsed)
    shown = runs[:limit]
    if parsed.json:
        show_json(shown, indent=2)
    if not runs:
        say(
            f"{folder}: none of its {total:,} runs is like that" if total else f"{folder}: there is no run here; {_HOW}"
        )
        return
    if parsed.json:
        return
    for line in runs_table(shown, folder, console.width, Clock(present())):
        console.print(line, soft_wrap=True)
    alike = total if as_they_come else len(runs)
    more = f" · --limit {alike} shows all" if len(shown) < alike else ""
    console.print(counted(shown, alike) + more, style="dim", soft_wrap=True)
    for line in mark_legend([run["headline"] for run in shown if run["headline"]]):
        console.print(one_line(line), style="dim", soft_wrap=True)
    if any(has_more(run) for run in shown):
        console.print(f"+N: {MORE}; kshot show RUN prints all figures", style="dim", soft_wrap=True)


def _show_one(folder: Path, *, as_json: bool) -> int:
    from kshot.cli.screen import Screen
    from kshot.cli.streams import show_json
    from kshot.report.runs_table import Clock, run_details
    from kshot.runs.listing import details

    now = present()
    run = details(folder, now)
    if as_json:
        show_json(run, indent=2)
        return 0
    console = Screen()
    for line in run_details(run, Clock(now)):
        console.print(line, soft_wrap=True)  # commands and names can be copied
    return 0


def _chosen(runs: list[dict[str, Any]], parsed: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the runs that are asked for, sorted: the best figure or the largest value first, unknown ones last."""
    from kshot.runs.run_state import RUNNING

    states = RUNNING if parsed.state in RUNNING else {parsed.state}
    found = [
        run
        for run in runs
        if (parsed.state is None or run["state"] in states)
        and _names(run["models"], parsed.model)
        and _names(run["datasets"], parsed.dataset)
    ]
    if parsed.sort == "name":
        return sorted(found, key=lambda run: run["run"])
    if parsed.sort == "when":
        return found
    return sorted(found, key=_best_first if parsed.sort == "headline" else _largest_first(parsed.sort))


def _best_first(run: dict[str, Any]) -> tuple[bool, bool, float]:
    """Return where a run stands by its headline; those where lower is better stand by themselves."""
    value, higher = (run["headline"] or {"value": None})["value"], (run["headline"] or {}).get("higher_is_better", True)
    return value is None, not higher, 0.0 if value is None else -value if higher else value


def _largest_first(sort: str) -> Callable[[dict[str, Any]], tuple[bool, float]]:
    name = {"cost": "cost_usd", "duration": "seconds"}[sort]
    return lambda run: (run[name] is None, -(run[name] or 0.0))


def _names(names: Sequence[str], text: str | None) -> bool:
    """Whether a text is part of a name, in small or capital letters."""
    return text is None or any(text.casefold() in name.casefold() for name in names)
