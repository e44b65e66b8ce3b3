"""What pages show of runs: the sections of one that is done, how far another one is, two side by side; and the page."""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, TypeAlias

from markupsafe import Markup

from kshot.core.errors import KshotError, RunError
from kshot.core.records import ResultRow
from kshot.core.text_files import parse_json, path_inside, regular_file
from kshot.report.comparison import headline_rows
from kshot.report.page.comparison_section import between_runs
from kshot.report.page.course_section import unfinished_section
from kshot.report.page.markup import Section, tag, text
from kshot.report.page.packed_samples import read_run_samples
from kshot.report.page.page_run import PageRun
from kshot.report.page.report_page import SCRIPTS, STATIC_SCRIPTS, STYLES
from kshot.report.page.run_sections import differing_settings, run_sections
from kshot.report.page.sample_card import sample_line
from kshot.report.sample_look import SampleLook
from kshot.runs.comparing import Comparison
from kshot.runs.folder import SUMMARY
from kshot.runs.listing import details
from kshot.runs.progress import ProgressState
from kshot.runs.record import read_record
from kshot.runs.run_state import RUNNING
from kshot.runs.sample_filters import MetricScale
from kshot.runs.samples_file import SAMPLES
from kshot.runs.spec_file import SPEC, read_spec
from kshot.viewer.background import Jobs
from kshot.viewer.catalog import ListedRun, shown
from kshot.viewer.security import PAGE_POLICY


def page_sections(folder: Path, key: str, name: str, *, samples: bool) -> list[dict[str, str]]:
    """Return the sections on a finished run; without ``samples``, those that need not read all of them."""
    run = PageRun(key, name, read_record(folder), read_spec(folder))
    return _written(run_sections([run], {key: read_run_samples(run)} if samples else None))


def comparison_page(found: Comparison, keys: Sequence[str]) -> dict[str, Any]:
    """Return the sections and counts of a comparison of two runs with these keys."""
    labels = [each["label"] for each in found.runs]
    section = between_runs(found, dict(zip(labels, keys, strict=True)))
    return {"sections": _written([section, *differing_settings(found)]), **_counts(found)}


def _written(sections: Iterable[Section]) -> list[dict[str, str]]:
    return [{"id": each.id, "title": each.title, "html": str(each.html)} for each in sections]


def _counts(found: Comparison) -> dict[str, int | None]:
    """Return how many questions one side alone gets right, both, or neither, by the headlines that say right or wrong.

    Where none does, only which side has the higher score is counted. If a sample is compared with several ones of the
    other run, such as those of two models, no sum is a number of samples, and none is told.
    """
    rows = [row for row in headline_rows(found.rows) if "average" not in row]
    for side, task in (("baseline", "task"), ("run", "run_task")):
        if len({(row[f"{side}_model"], row.get(task) or row["task"]) for row in rows}) < len(rows):
            return dict.fromkeys(("won", "lost", "both", "neither"))
    binary = [row for row in rows if row.get("both") is not None]
    counts: dict[str, int | None] = {name: sum(row[name] for row in binary or rows) for name in ("won", "lost")}
    return counts | {name: sum(row[name] for row in binary) if binary else None for name in ("both", "neither")}


_DRAFT = f".{SAMPLES}.draft"
_LATEST = 20
_TAIL_BYTES = 1 << 20
_DETAILS = ("settings", "versions", "sessions", "spent", "files")
_KEPT = 8
_QUICK_BYTES = 4 << 20
"""Samples that are read at once, for the sections that need all of them; a process reads larger files."""

Versions: TypeAlias = tuple[tuple[int, int, int] | None, ...]


class RunPages:
    """What pages show of single runs; the sections of the last few are kept until their files change."""

    def __init__(self, jobs: Jobs | None = None) -> None:
        """Take what reads all samples of large runs; without it, they are read here, while somebody waits."""
        self._jobs = jobs
        self._sections: dict[Path, tuple[Versions, list[dict[str, str]]]] = {}
        self._lock = threading.Lock()

    def of(self, run: ListedRun, progress: ProgressState | None) -> dict[str, Any]:
        """Return a run as the JSON of ``/api/runs/KEY``; with ``reading``, it will have more sections soon."""
        found = details(run.folder, datetime.now(timezone.utc))
        page = {**run.line, "details": shown({name: found[name] for name in _DETAILS}), "sections": [], "latest": []}
        page["reading"] = False
        if run.record["state"] in RUNNING:
            page |= {**live_line(run, progress), "latest": latest_samples(run.folder)}
        elif run.record["state"] != "damaged" and (run.folder / SUMMARY).exists():
            page["sections"], page["reading"] = self._sections_of(run)
        if unfinished := unfinished_section({**found, **run.record}):
            page["sections"] = [{**asdict(unfinished), "html": str(unfinished.html)}, *page["sections"]]
        return page

    def _sections_of(self, run: ListedRun) -> tuple[list[dict[str, str]], bool]:
        version = _versions(run.folder)
        size = 0 if version[-1] is None else version[-1][-1]
        if self._jobs is None or size <= _QUICK_BYTES:
            return self._kept(run, version, samples=run.line["samples"]), False
        place = str(run.folder.absolute())
        work = {"work": "sections", "folder": place, "key": run.key, "name": run.line["name"]}
        found = self._jobs.of(("sections", place), version, work)
        if found is not None and "sections" in found:
            return found["sections"], False
        quick = self._kept(run, version, samples=False)
        return (quick, True) if found is None else ([_unread(found["error"]), *quick], False)

    def _kept(self, run: ListedRun, version: Versions, *, samples: bool) -> list[dict[str, str]]:
        with self._lock:
            known = self._sections.pop(run.folder, None)
            if known is None or known[0] != version:
                known = version, _made(run, samples=samples)
            self._sections[run.folder] = known
            while len(self._sections) > _KEPT:
                del self._sections[next(iter(self._sections))]
        return known[1]


def _made(run: ListedRun, *, samples: bool) -> list[dict[str, str]]:
    """Return the sections; if samples cannot be read, those that need none, and why."""
    try:
        return page_sections(run.folder, run.key, run.line["name"], samples=samples)
    except RunError as exc:
        if not samples:
            raise
        return [_unread(str(exc)), *_made(run, samples=False)]


def _unread(why: str) -> dict[str, str]:
    """Return a section that says why those that are made from all samples are not there."""
    said = tag("p", text(f"What is made from all samples (such as calibration) is not here: {why}"))
    return {"id": "unread", "title": "Samples not read", "html": str(tag("div", said, class_="notice wrong"))}


def live_line(run: ListedRun, progress: ProgressState | None) -> dict[str, Any]:
    """Return the line of a run that is under way, with its tasks and their figures so far."""
    if progress is None or run.line["progress"] is None:
        return run.line
    return {**run.line, "progress": {**run.line["progress"], "tasks": shown(_tasks(progress))}}


def _versions(folder: Path) -> Versions:
    """Return what changes when a file of a run is written again that its page is made of."""
    return tuple(_file_version(folder / name) for name in (SPEC, SUMMARY, SAMPLES))


def _file_version(path: Path) -> tuple[int, int, int] | None:
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
            **{name: getattr(task.reading, name) for name in ("done", "failed", "value")},
            "metric": task.reading.label,
            "mark": task.reading.mark,
            "marked": f"{task.reading.failed:,} failed",
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


@dataclass
class Comparisons:
    """Compares runs, one pair at a time; the last comparisons are kept until a file of theirs changes."""

    jobs: Jobs

    def of(self, baseline: ListedRun, run: ListedRun) -> dict[str, Any]:
        """Return a comparison as JSON; its state is "comparing" until it is made."""
        runs = baseline, run
        folders = [str(each.folder.absolute()) for each in runs]
        work = {"work": "compare", "folders": folders, "keys": [each.key for each in runs]}
        found = self.jobs.of(("compare", *folders), [_versions(each.folder) for each in runs], work)
        nothing: dict[str, Any] = {"sections": [], **dict.fromkeys(("won", "lost", "both", "neither", "error"))}
        return {"state": "comparing" if found is None else "ready", **nothing, **(found or {}), **sides_of(runs)}


def sides_of(runs: Sequence[ListedRun]) -> dict[str, dict[str, str]]:
    """Return the keys and names of a baseline, ``a``, and of the run that is compared with it, ``b``."""
    return {side: {"key": run.key, "name": run.line["name"]} for side, run in zip("ab", runs, strict=True)}


# ---- the page, and JSON that every browser reads ----


_PAGE = Markup("""<!doctype html>
<html lang="en" data-source="{source}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{policy}<meta name="referrer" content="no-referrer">
<title>kshot</title>
<link rel="icon" href="{icon}">
{styles}
</head>
<body>
<div id="app"><noscript><p>This page needs JavaScript.</p></noscript></div>
{scripts}
</body>
</html>
""")
_POLICY = Markup('<meta http-equiv="Content-Security-Policy" content="{}">\n')
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Ccircle cx='8' cy='8' r='7' "
    "fill='%232563eb'/%3E%3Ccircle cx='8' cy='8' r='2.5' fill='white'/%3E%3C/svg%3E"
)


def web_page(source: Literal["server", "files"]) -> str:
    """Return the page; ``source`` says where its scripts get their data."""
    styles = Markup("\n").join(Markup('<link rel="stylesheet" href="web/{}">').format(name) for name in STYLES)
    names = SCRIPTS if source == "server" else STATIC_SCRIPTS
    scripts = Markup("\n").join(Markup('<script src="web/{}"></script>').format(name) for name in names)
    policy = _POLICY.format(PAGE_POLICY) if source == "files" else ""  # a server says it in a header
    return str(_PAGE.format(source=source, icon=_ICON, policy=policy, styles=styles, scripts=scripts))


def json_bytes(value: Any) -> bytes:
    """Return JSON that every browser reads."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, (list, tuple)) else value
