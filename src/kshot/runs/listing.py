"""The runs below a folder, each as a plain record, from ``spec.json`` and ``summary.json`` alone.

Run folders may come from strangers: nothing in them is changed, no link is followed, and a folder that cannot be read
is a record that says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeAlias

from kshot.core.arguments import checked_folder
from kshot.core.errors import KshotError, RunError, UsageError
from kshot.core.shareable import shareable
from kshot.core.text_files import path_inside
from kshot.runs.folder import FILES, JOURNAL, SUMMARY, without_defaults
from kshot.runs.headline import failed_samples, finite, first_figure, headline_figures
from kshot.runs.limits import recorded_cost
from kshot.runs.progress import ProgressState, read_progress
from kshot.runs.record import read_summary
from kshot.runs.run_state import (
    REPORT,
    RUNNING,
    first_change,
    is_working,
    last_change,
    moment,
    seconds_of,
    state_of,
)
from kshot.runs.samples_file import SAMPLES
from kshot.runs.spec_file import SPEC, read_spec, reason_of, recorded_versions

USUAL_FOLDER = "runs"
"""Where ``kshot run`` makes its folders."""

_MAX_DEPTH = 3
_MAX_FOLDERS = 100_000
"""Folders that are looked into: somebody may name the root of a disk."""
_MAX_BYTES = 64 << 20
"""The size of a ``spec.json`` or ``summary.json`` that a list reads."""
_TRIES = 3


def list_runs(folder: str | Path = USUAL_FOLDER) -> list[dict[str, Any]]:
    """Return the runs in a folder and up to three levels below, the newest first.

    Each is a dict with ``run`` (its folder), ``state`` (done, stopped, failed, killed, running, damaged), ``why`` (what
    stopped it, made it fail, or is damaged), ``started``, ``last_started``, ``ended``, ``seconds``, ``models``,
    ``datasets``, ``headline`` (a figure), ``figures``, ``failed``, ``cost_usd``, and ``progress`` unless it is done.
    """
    return newest_below(checked_folder("the folder", folder), datetime.now(timezone.utc), None)[0]


def newest_below(folder: str | Path, now: datetime, most: int | None) -> tuple[list[dict[str, Any]], int]:
    """Return the newest runs in a folder, as they are now, and how many runs there are.

    ``most``: how many are wanted; None: all. The figures of others are not read.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise UsageError("there is no such folder", where=str(folder), hint="Name a folder with runs, or one run.")
    folders = list(run_folders(path))
    total = len(folders)
    if most is not None and total > most:
        folders = sorted(folders, key=lambda each: (_begun(each) or "", str(each)), reverse=True)[:most]
    records = [(each, describe(each, now)) for each in folders]
    found = [run for each, run in records if run["state"] != "damaged" or os.path.lexists(each)]  # one may vanish
    return newest_first(found), total - len(records) + len(found)


def _begun(folder: Path) -> str | None:
    """Return when a run began, from its ``spec.json`` or the times of its files."""
    begun = None
    with suppress(OSError, KshotError):
        _check_size(folder, SPEC)
        starts = (moment(each.get("started")) for each in _spec(folder).get("sessions", []))
        begun = next((start for start in starts if start is not None), None)
    begun = begun or first_change(folder)
    return None if begun is None else _written(begun)


def newest_first(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort runs by their start."""
    return sorted(runs, key=lambda run: (run["started"] or "", run["run"]), reverse=True)


def run_folders(folder: Path) -> Iterator[Path]:
    """Yield the run folders in a folder: itself, or those below it. Links to folders are not followed."""
    level, seen = [folder], 0
    for depth in range(_MAX_DEPTH + 1):
        below: list[Path] = []
        for each in level:
            seen += 1
            if seen > _MAX_FOLDERS:
                what = f"there are more than {_MAX_FOLDERS:,} folders in it"
                raise UsageError(what, where=str(folder), hint="Name a folder nearer to the runs.")
            try:
                with os.scandir(each) as entries:
                    found = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
            except OSError:
                yield each  # reading it tells why it cannot be read
                continue
            if is_run(found):
                yield each
            elif depth < _MAX_DEPTH:
                below += [each / name for name in sorted(found) if found[name] and not name.startswith(".")]
        level = below


def is_run_folder(folder: Path) -> bool:
    """Whether a folder is that of one run."""
    try:
        return is_run(os.listdir(folder))  # noqa: PTH208 - only the names are needed
    except OSError:
        return False


def is_run(names: Sequence[str] | Mapping[str, Any]) -> bool:
    """Whether a folder with these files is one of a run: other programs have a ``spec.json``, too."""
    return JOURNAL in names or sum(name in names for name in (SPEC, SUMMARY, SAMPLES)) > 1


def describe(folder: Path, now: datetime) -> dict[str, Any]:
    """Return the record of a run; ``why`` says what stopped it, made it fail, or is wrong with its folder.

    One that cannot be used has the state ``damaged``.
    """
    unknown = ("why", "started", "last_started", "ended", "seconds", "headline", "failed", "cost_usd", "progress")
    record: dict[str, Any] = {"run": str(folder), "state": "damaged", **dict.fromkeys(unknown)}
    record |= {"models": [], "datasets": [], "figures": []}
    try:
        return record | _described(folder, now)
    except KshotError as exc:
        why = exc.what
    except OSError as exc:
        why = f"it cannot be read: {exc.strerror or exc}"
    begun = first_change(folder)
    return record | {"why": why, "started": None if begun is None else _written(begun)}


def details(folder: Path, now: datetime) -> dict[str, Any]:
    """Return the record of one run with its sessions, settings, files, and what it has spent."""
    spec: dict[str, Any] = {}
    record = describe(folder, now)
    if record["state"] != "damaged" and (folder / SPEC).exists():
        spec = read_spec(folder)
    identity = {k: v for k, v in spec.get("identity", {}).items() if k not in {"models", "datasets"}}
    sessions = spec.get("sessions", [])
    if sessions and sessions[-1].get("state") == "running" and record["state"] not in RUNNING:
        sessions = [*sessions[:-1], {**sessions[-1], "state": record["state"], "ended": record["ended"]}]
    return record | {
        "settings": shareable(without_defaults(identity)),
        "sessions": sessions,
        "versions": recorded_versions(spec),
        "spent": spec.get("spent", {}),
        "files": _files(folder),
    }


def _described(folder: Path, now: datetime) -> dict[str, Any]:
    os.listdir(folder)  # noqa: PTH208 - a folder that cannot be read says so here, not as one that lacks files
    for name in (SPEC, SUMMARY):
        _check_size(folder, name)
    spec, working = _spec_and_lock(folder)
    sessions = spec.get("sessions", [])
    state = state_of(folder, sessions, now, working=working)
    if not spec and state != "running":
        state = "killed"  # while its model was being opened
    summary = read_summary(folder) if spec else None
    why = "kshot does not know its state" if state == "damaged" else reason_of(sessions)
    if state == "done" and summary is None:
        state, why = "damaged", f"{SUMMARY} is missing"
    results = [row for row in summary["results"] if not row.get("detail")] if summary else []
    figures = headline_figures(results)
    starts = [begun for each in sessions if (begun := moment(each.get("started"))) is not None]
    ends = [end for each in sessions[-1:] if (end := moment(each.get("ended"))) is not None]
    begun = starts[0] if starts else first_change(folder)
    progress = None if state in {"done", "damaged"} else _progress(folder, sessions, state)
    failed = failed_samples(results) if summary else None
    ended = None if state in RUNNING else ends[0] if ends else last_change(folder)
    return {
        "state": state,
        "why": why,
        "started": None if begun is None else _written(begun),
        "last_started": _written(starts[-1]) if starts else None,
        "ended": None if ended is None else _written(ended),
        "seconds": seconds_of(folder, sessions, state, now),
        "models": _models(spec, results),
        "datasets": spec.get("identity", {}).get("datasets", []),
        "headline": first_figure(figures),
        "figures": figures,
        "failed": failed if progress is None else progress["failed"],  # an earlier summary is not of this session
        "cost_usd": _cost(spec, summary),
        "progress": progress,
        **({"shard": str(shard)} if (shard := spec.get("identity", {}).get("shard")) is not None else {}),
    }


def _progress(folder: Path, sessions: Sequence[Mapping[str, Any]], state: str) -> dict[str, Any] | None:
    """Return how far the last session has come; what an earlier one has left in the folder says nothing of it."""
    last = sessions[-1] if sessions else {}
    starting = state == "running" and last.get("state") != "running"  # its session is recorded with its first model
    found = None if starting else read_progress(folder)
    if found is None or moment(found.started) != moment(last.get("started")):
        return None
    return {"done": found.done, "total": found.total, "failed": found.failed, "seconds_left": found.left}


def _check_size(folder: Path, name: str) -> None:
    place = path_inside(folder, name)
    size = place.stat().st_size if place.exists() else 0
    if size > _MAX_BYTES:
        raise RunError(f"{name} has {size / 1e6:,.0f} MB, too much for a list")


def _spec_and_lock(folder: Path) -> tuple[dict[str, Any], bool | None]:
    """Read ``spec.json``, and whether a process works in the folder: both at one time, though they may change.

    A run that ends records so before it releases the lock. One that starts has the lock before it has a ``spec.json``.
    """
    spec = _spec(folder)
    for _ in range(_TRIES):
        working = is_working(folder)
        again = _spec(folder)
        if again.get("sessions") == spec.get("sessions"):
            break
        spec = again
    return again, working


def _spec(folder: Path) -> dict[str, Any]:
    """Read ``spec.json``; it is empty while the first model is opened: nothing is answered before there is one."""
    if not (folder / SPEC).exists():
        journal = path_inside(folder, JOURNAL)
        if journal.exists() and not journal.stat().st_size:
            return {}
    return read_spec(folder)


def _models(spec: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the models that were evaluated; without figures, those that the command names, or those opened so far."""
    named = spec.get("identity", {}).get("models", [])
    named = [each for each in named if isinstance(each, str)] if isinstance(named, list) else []
    opened = [each["name"] for each in spec.get("models", ()) if each["role"] in {"model", "search_engine"}]
    known = [each["model"] for each in results if "model" in each]
    return list(dict.fromkeys(known or ([] if named == ["config"] else named) or opened))


def _cost(spec: Mapping[str, Any], summary: Mapping[str, Any] | None) -> float | None:
    """Return the cost in USD: of the answers behind the figures, or else of what was spent so far."""
    costs = [cost for row in (summary or {}).get("usage", ()) if (cost := finite(row.get("cost_usd"))) is not None]
    return finite(sum(costs) if costs else recorded_cost(spec.get("options", {}), spec.get("spent")))


def _files(folder: Path) -> list[dict[str, Any]]:
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                size = entry.stat(follow_symlinks=False).st_size
                found.append({"name": entry.name, "bytes": None if entry.is_dir(follow_symlinks=False) else size})
    except OSError:  # it vanished
        return found
    order = {name: at for at, name in enumerate((*FILES, REPORT))}
    return sorted(found, key=lambda file: (order.get(file["name"], len(order)), file["name"]))


def _written(when: datetime) -> str:
    return when.isoformat(timespec="seconds")


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
