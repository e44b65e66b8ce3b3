"""A run that has not come to its end: why, how far it came, and the command with which it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshot.report.page.course_section import command_of
from kshot.report.page.markup import Section, command, tag, text

_WHY = {
    "stopped": "A signal or a limit stopped this run.",
    "failed": "An error ended this run.",
    "killed": "The process of this run ended before its time.",
    "damaged": "Restore the folder of this run, or run its command again in a new one.",
    "running?": "This run seems to work on another machine: its lock cannot be seen from here.",
}
_GOES_ON = {"stopped", "failed", "killed"}
_HOW = "The same command goes on from there, and asks nothing again that is answered:"


def unfinished_section(run: Mapping[str, Any]) -> Section | None:
    """Return what to say of a run that has no figures, or old ones; None if it is done or runs here.

    ``run`` is what ``runs.listing.details`` returns.
    """
    state, progress = run["state"], run["progress"]
    if state not in _WHY:
        return None
    words = [f"{run['why']}."] if run["why"] else []
    words.append(_WHY[state])
    if progress is not None:
        whole = "" if progress["total"] is None else f" of {progress['total']:,}"
        words.append(f"{progress['done']:,}{whole} samples are done.")
    said = tag("p", text(" ".join(words)))
    line = command_of(run["sessions"])
    if state in _GOES_ON and line:
        said += tag("p", _HOW) + command(line)
    return Section("unfinished", "Not finished", tag("div", said, class_="notice wrong"))
