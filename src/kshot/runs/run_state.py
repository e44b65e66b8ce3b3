"""The state of a run and how long it took: from its sessions, its lock and the times of its files.

Other commands do not write over the files of a run folder.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from kshot.core.errors import UsageError
from kshot.runs.folder import FILES, JOURNAL, SUMMARY, file_times
from kshot.runs.journal import is_locked
from kshot.runs.samples_file import INDEX, WORDS
from kshot.runs.spec_file import SPEC, State, interrupted

ListedState: TypeAlias = Literal[State, "running?", "damaged"]
"""``running?``: it says that it runs, something has changed of late, and its lock cannot be seen from this machine."""

RUNNING: frozenset[ListedState] = frozenset({"running", "running?"})
"""The states of a run that runs, as far as one can tell."""

_FRESH = timedelta(minutes=5)
"""A run that works writes to its folder more often than that."""


def is_working(folder: Path) -> bool | None:
    """Whether a process has the lock of a run folder; None where that cannot be found out."""
    return is_locked(folder / JOURNAL)


def older_figures(folder: Path, spec: Mapping[str, Any]) -> str | None:
    """Say why the figures of a run may not be those of its latest session; None if they are."""
    if is_working(folder):
        return "another process is working in this run folder, so its figures are older, or about to change"
    return interrupted(spec)


def state_of(
    folder: Path, sessions: Sequence[Mapping[str, Any]], now: datetime, *, working: bool | None
) -> ListedState:
    """Return the state of a run. Folders of version 0.1 have no sessions: there, figures say that it is done."""
    if working:
        return "running"
    if not sessions:
        return "done" if (folder / SUMMARY).is_file() else "stopped"
    last = sessions[-1]
    found = last.get("state")
    if found == "running":
        unseen = working is None or last.get("host") != platform.node()
        changed = last_change(folder)
        fresh = changed is not None and now - changed < _FRESH
        return "running?" if unseen and fresh else "killed"
    known: dict[Any, State] = {each: each for each in get_args(State)}
    return known.get(found, "damaged") if isinstance(found, str) else "damaged"


def seconds_of(folder: Path, sessions: Sequence[Mapping[str, Any]], state: ListedState, now: datetime) -> float | None:
    """Return how long all sessions took together; None if no session says so.

    One that was killed ended with the last change of a file, if no other session followed; else its end is not known.
    """
    spans = []
    for session in sessions:
        begin, end = moment(session.get("started")), moment(session.get("ended"))
        if end is None and session is sessions[-1]:
            end = now if state == "running" else last_change(folder)
        if begin is not None and end is not None:
            spans.append(max(0.0, (end - begin).total_seconds()))
    return sum(spans) if spans else None


def moment(text: Any) -> datetime | None:
    """Read a time of ``spec.json``; None for what is no time."""
    if not isinstance(text, str):
        return None
    with suppress(ValueError, OverflowError):
        found = datetime.fromisoformat(text)
        found = found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
        return found.astimezone(timezone.utc)
    return None


def last_change(folder: Path) -> datetime | None:
    """Return when a file of a run folder was last changed."""
    return max(file_times(folder), default=None)


def first_change(folder: Path) -> datetime | None:
    """Return the earliest change of a file of a run folder: about when a run of version 0.1 began."""
    return min(file_times(folder), default=None)


REPORT = "report.html"
"""What a run shows, for people; ``kshot report`` writes it again."""


def spare_runs(out: Path) -> None:
    """Refuse a path that is a file of any run. Its folder may be written in many ways: links and ``..`` are followed.

    A link at the path itself is replaced, and not written through, so that it may lead anywhere.
    """
    target = out.expanduser()
    folder = Path(os.path.realpath(target.parent))
    known = {*FILES, REPORT, INDEX, WORDS}
    if target.name.casefold() in known and _is_run(folder):
        raise UsageError("this is a file of a run", where=str(out), hint="Choose another name.")


def spare_run_folders(out: Path) -> None:
    """Refuse a folder that is the folder of a run: other files have no place there."""
    if _is_run(Path(os.path.realpath(out.expanduser()))):
        raise UsageError("this is a run folder", where=str(out), hint="Choose another folder.")


def _is_run(folder: Path) -> bool:
    return any(os.path.lexists(folder / name) for name in (SPEC, JOURNAL))
