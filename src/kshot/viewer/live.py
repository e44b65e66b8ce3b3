"""A run on its page: its figures when it is done, and until then how far it is and what it answered last."""

from __future__ import annotations

import os
import threading
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeAlias

from kshot.core.errors import KshotError
from kshot.core.file_names import path_inside
from kshot.core.json_text import parse_json
from kshot.core.records import ResultRow
from kshot.core.text_files import regular_file
from kshot.report.page.page_run import PageRun
from kshot.report.page.run_sections import run_sections
from kshot.report.page.sample_line import sample_line
from kshot.report.sample_look import SampleLook
from kshot.runs.folder import SUMMARY
from kshot.runs.listing import details
from kshot.runs.progress import ProgressState
from kshot.runs.record import read_record
from kshot.runs.run_state import RUNNING
from kshot.runs.sample_verdicts import MetricScale
from kshot.runs.samples_file import SAMPLES
from kshot.runs.spec_file import SPEC, read_spec
from kshot.viewer.catalog import ListedRun, shown

_DRAFT = f".{SAMPLES}.draft"
_LATEST = 20
_TAIL_BYTES = 1 << 20
_DETAILS = ("settings", "versions", "sessions", "spent", "files")
_KEPT = 8

Versions: TypeAlias = tuple[tuple[int, int, int] | None, ...]


class RunPages:
    """What pages show of single runs; the sections of the last few are kept until their files change."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._sections: dict[Path, tuple[Versions, list[dict[str, str]]]] = {}
        self._lock = threading.Lock()

    def of(self, run: ListedRun, progress: ProgressState | None) -> dict[str, Any]:
        """Return a run as the JSON of ``/api/runs/KEY``."""
        found = details(run.folder, datetime.now(timezone.utc))
        page = {**run.line, "details": shown({name: found[name] for name in _DETAILS}), "sections": [], "latest": []}
        if run.record["state"] in RUNNING:
            page |= {**live_line(run, progress), "latest": latest_samples(run.folder)}
        elif run.record["state"] != "damaged" and (run.folder / SUMMARY).exists():
            page["sections"] = self._sections_of(run)
        return page

    def _sections_of(self, run: ListedRun) -> list[dict[str, str]]:
        version = versions(run.folder, SPEC, SUMMARY)
        with self._lock:
            known = self._sections.pop(run.folder, None)
            if known is None or known[0] != version:
                known = version, page_sections(run)
            self._sections[run.folder] = known
            while len(self._sections) > _KEPT:
                del self._sections[next(iter(self._sections))]
        return known[1]


def live_line(run: ListedRun, progress: ProgressState | None) -> dict[str, Any]:
    """Return the line of a run that is under way, with its tasks and their figures so far."""
    if progress is None or run.line["progress"] is None:
        return run.line
    return {**run.line, "progress": {**run.line["progress"], "tasks": shown(_tasks(progress))}}


def page_sections(run: ListedRun) -> list[dict[str, str]]:
    """Return the sections on a finished run, as JSON."""
    page_run = PageRun(run.key, run.line["name"], read_record(run.folder), read_spec(run.folder))
    return [{**asdict(section), "html": str(section.html)} for section in run_sections([page_run])]


def versions(folder: Path, *names: str) -> Versions:
    """Return what changes when one of these files of a folder is written again."""
    return tuple(_version(folder / name) for name in names)


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def _tasks(progress: ProgressState) -> list[dict[str, Any]]:
    """Return how far each task is, with its figure so far."""
    return [
        {
            **{name: getattr(task, name) for name in ("task", "model", "state", "total")},
            **{name: getattr(task.reading, name) for name in ("done", "failed", "metric", "value")},
            "ci95": None if task.reading.interval is None else list(task.reading.interval),
        }
        for task in progress.tasks
    ]


# ---- samples of a run that is under way ----


def latest_samples(folder: Path, most: int = _LATEST) -> list[dict[str, Any]]:
    """Return the last samples that a running run has written, the newest first, as ``SampleLine``s without numbers.

    Whether they are right is known when the run ends and its scale is written.
    """
    rows = _last_rows(folder, most)
    return [{**sample_line(SampleLook(row, _scale(row)), 0), "n": None} for row in reversed(rows)]


def _scale(row: ResultRow) -> MetricScale:
    scores = row.get("scores")
    return MetricScale(str(next(iter(scores), "")) if isinstance(scores, dict) else "", None, None)


def _last_rows(folder: Path, most: int) -> list[ResultRow]:
    """Read the last complete lines of the draft; none if there is no draft, or nothing in it that can be read."""
    try:
        with open(path_inside(folder, _DRAFT), "rb", opener=regular_file) as file:
            size = file.seek(0, os.SEEK_END)
            start = file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).split(b"\n")
    except (OSError, KshotError):
        return []
    complete = lines[1 if start else 0 : -1]
    rows = []
    for line in complete[-most:]:
        try:
            row = parse_json(line.decode("utf-8", "surrogatepass"))
        except ValueError:
            continue
        rows += [row] if isinstance(row, dict) else []
    return rows
