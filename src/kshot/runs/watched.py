"""Runs that are looked at again and again: only what has changed is read again."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from kshot.runs.folder import SUMMARY
from kshot.runs.listing import describe, is_run_folder, newest_first, run_folders
from kshot.runs.progress import ProgressState, read_progress
from kshot.runs.run_state import RUNNING, is_working, moment
from kshot.runs.spec_file import SPEC

_Version: TypeAlias = tuple[tuple[int, int, int] | None, ...]


class WatchedRuns:
    """The runs below a folder, or one run, as they are now; a folder that vanishes is left out."""

    def __init__(self, folder: Path) -> None:
        """Take the folder."""
        self._folder = folder
        self._known: dict[Path, tuple[_Version, dict[str, Any]]] = {}
        self._progress: dict[str, ProgressState] = {}

    def look(self, now: datetime) -> list[dict[str, Any]]:
        """Return the records of all runs, the newest first."""
        known = {}
        for each in run_folders(self._folder):
            version = _version(each)
            earlier = self._known.get(each)
            if earlier is None or earlier[0] != version or earlier[1]["state"] in RUNNING or is_working(each):
                earlier = version, describe(each, now)
            if earlier[1]["state"] != "damaged" or is_run_folder(each):
                known[each] = earlier
        self._known = known
        return newest_first(record for _, record in known.values())

    def progress(self, run: dict[str, Any]) -> ProgressState | None:
        """Return how far a run is; for a moment in which that cannot be read, how far it was."""
        found = read_progress(Path(run["run"])) if run["progress"] is not None else None
        if found is not None:
            self._progress[run["run"]] = found
        known = self._progress.get(run["run"])
        same_session = known is not None and moment(known.started) == moment(run["last_started"])
        return known if same_session else None


def _version(folder: Path) -> _Version:
    """Return what changes when a file of the folder is written again."""
    found: list[tuple[int, int, int] | None] = []
    for name in (SPEC, SUMMARY):
        found.append(None)
        with suppress(OSError):
            status = os.lstat(folder / name)
            found[-1] = status.st_mtime_ns, status.st_ino, status.st_size
    return tuple(found)
