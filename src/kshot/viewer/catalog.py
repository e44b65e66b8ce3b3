"""The runs that a viewer shows, and their keys in links. A request names a key; nothing of it becomes a path."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any

from kshot.core.errors import RunError
from kshot.core.failed_parts import failure_mark, failure_words
from kshot.core.shareable import shareable
from kshot.core.text_files import is_plain
from kshot.core.visible import metric_label, one_line
from kshot.runs.listing import WatchedRuns, newest_first
from kshot.runs.progress import ProgressState
from kshot.runs.samples_file import SAMPLES

_LOOK_SECONDS = 1.0
"""The folders are looked at once in this time, however many ask."""
_LOOK_SHARE = 0.2
"""Looking takes no more of the time than that: there may be thousands of runs."""
_MAX_KEY = 80
_SAME = ("state", "why", "started", "ended", "seconds", "models", "datasets", "failed", "cost_usd", "progress")
_HEADLINE = ("task", "model", "metric", "value", "ci95", "n", "bounds", "higher_is_better")


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run: its key in links, its folder, and its line in the list as the JSON ``RunLine``.

    ``place`` is its path below the folder that the user named, which tells nothing of where that folder is.
    """

    key: str
    folder: Path
    place: str
    record: dict[str, Any]
    line: dict[str, Any]


class UnknownRun(RunError):  # noqa: N818 - it names what was asked for
    """A key that no run has, or none any more."""


class Catalog:
    """The runs in and below some folders. All methods may be called from any thread."""

    def __init__(self, folders: Sequence[Path], clock: Callable[[], float] = time.monotonic) -> None:
        """Take the folders that a user names; ``clock`` says when it is time to look again."""
        self.folders = tuple(folders)
        self._watched = [WatchedRuns(folder) for folder in folders]
        self._clock, self._lock = clock, threading.Lock()
        self._keys = RunKeys()
        self._runs: dict[str, ListedRun] = {}
        self._next_look = -1.0

    def runs(self) -> list[ListedRun]:
        """Return the runs as they are now, or were a second ago; the newest first."""
        with self._lock:
            if self._clock() >= self._next_look:
                began = self._clock()
                self._look()
                self._next_look = self._clock() + max(_LOOK_SECONDS, (self._clock() - began) / _LOOK_SHARE)
            return list(self._runs.values())

    def run(self, key: str) -> ListedRun:
        """Return the run with this key."""
        found = next((run for run in self.runs() if run.key == key), None)
        if found is None:
            raise UnknownRun(f"there is no run {key!r:.80} here", hint="Its folder may be gone; see the list of runs.")
        return found

    def progress(self, run: ListedRun) -> ProgressState | None:
        """Return how far a run is that has not come to its end."""
        return self._watched[0].progress(run.record) if self._watched else None

    def _look(self) -> None:
        now = datetime.now(timezone.utc)
        places: dict[str, tuple[Path, dict[str, Any]]] = {}
        for folder, watched in zip(self.folders, self._watched, strict=True):
            for record in watched.look(now) if folder.is_dir() else ():
                places.setdefault(os.path.realpath(record["run"]), (folder, record))
        keys = {place: self._keys.of(Path(record["run"]), folder) for place, (folder, record) in sorted(places.items())}
        known = self._runs
        self._runs = {}
        by_record = {id(record): (keys[place], below) for place, (below, record) in places.items()}
        for record in newest_first(record for _, record in places.values()):
            key, below = by_record[id(record)]
            last, folder = known.get(key), Path(record["run"])
            has_samples = is_plain(folder / SAMPLES)
            if last is None or last.record is not record or last.line["samples"] != has_samples:
                line = _line(key, record, has_samples=has_samples)
                last = ListedRun(key, folder, self._place(folder, below), record, line)
            self._runs[key] = last

    def _place(self, folder: Path, below: Path) -> str:
        """Return the path of a run below a folder; where the user names several, it begins with the folder's name."""
        name, relative = Path(os.path.realpath(below)).name, os.path.relpath(folder, below)
        if relative == ".":
            return one_line(name)
        return one_line(Path(name, relative) if len(self.folders) > 1 else relative)


class RunKeys:
    """Gives each run folder a key of its own, which stays the same: letters, digits, dots, hyphens, underscores."""

    def __init__(self) -> None:
        """Start without keys."""
        self._keys: dict[str, str] = {}
        self._owners: dict[str, str] = {}

    def of(self, folder: Path, below: Path) -> str:
        """Return the key of a run folder, after its path below a folder that the user named."""
        path = os.path.realpath(folder)
        if path not in self._keys:
            relative = os.path.relpath(folder, below)
            name = Path(path).name if relative == "." else relative
            key = re.sub(r"[^A-Za-z0-9._-]+", "-", name.replace(os.sep, "--")).lstrip("._-")[:_MAX_KEY]
            plain = key.replace("--", os.sep) == name
            if not plain or key.casefold() in self._owners:  # some file systems take "A" and "a" for one name
                key = f"{key or 'run'}-{hashlib.blake2b(os.fsencode(path), digest_size=4).hexdigest()}"
            self._owners[key.casefold()] = path
            self._keys[path] = key
        return self._keys[path]


def _line(key: str, record: dict[str, Any], *, has_samples: bool) -> dict[str, Any]:
    headline = record["headline"]
    line = {name: record[name] for name in _SAME}
    line["headline"] = headline and {
        **{name: headline.get(name) for name in _HEADLINE},
        "metric": metric_label(headline),
        "mark": failure_mark(headline),
        "marked": failure_words(headline),
    }
    line |= {"figures": len(record["figures"]), "samples": has_samples}
    return {"key": key, "name": one_line(record["run"]), **shown(line)}


def shown(value: Any, name: str = "") -> Any:
    """Return a value of a run for a page: without what may be a key, and with unsafe characters as escapes."""
    if isinstance(value, str):
        return _shown_text(value, name)
    if isinstance(value, dict):
        return {_shown_text(str(key), ""): shown(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(inner, name) for inner in value]
    return value if value is None or isinstance(value, (bool, int, float)) else _shown_text(str(value), name)


@lru_cache(maxsize=4096)
def _shown_text(text: str, name: str) -> str:
    """Return a text, which many runs have in common: it takes time to look for keys in it."""
    return one_line(shareable(text, name))
