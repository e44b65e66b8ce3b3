"""``kshot.write_report``: runs as one file for people, ``report.html``; every run with a folder ends with one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kshot.core.arguments import checked_folder
from kshot.core.durable import OTHER_FILE, new_version
from kshot.core.errors import KshotError, UsageError
from kshot.core.text_files import regular_file
from kshot.core.visible import one_line
from kshot.report.page.page_run import PageRun
from kshot.report.page.report_page import GENERATOR, document, report_page
from kshot.runs.folder import SUMMARY
from kshot.runs.record import RunRecord, read_record
from kshot.runs.run_state import REPORT, spare_runs
from kshot.runs.spec_file import read_spec

if TYPE_CHECKING:
    from kshot.runs.comparing import Comparison

MAX_BYTES = 2_000_000
"""The size of a report; so many samples are in it as fit."""
_KEY = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_KEY = 60
_HEAD_BYTES = 4096
"""Where a report says that it is one."""


@dataclass(frozen=True)
class WrittenReport:
    """A report on the disk: where it is, its size, and how many of how many samples it holds."""

    path: Path
    bytes: int
    here: int
    all: int


def write_report(*runs: str | Path | RunRecord, to: str | Path | None = None) -> Path:
    """Write runs as one HTML file that opens from the disk, offline; return its path.

    Each run is a folder, or what ``evaluate`` or ``load`` returned. The first is the baseline of the others. One run is
    written to ``report.html`` in its folder, several to ``report.html`` here, unless ``to`` names another file.
    """
    return report_on(runs, to).path


def report_on(runs: Sequence[str | Path | RunRecord], to: str | Path | None = None) -> WrittenReport:
    """Write a report; return where it is and what it holds."""
    if not runs:
        raise UsageError("there is no run to report on", hint="Name a run folder.")
    opened = _opened(runs)
    path = _target(opened, to)
    return _written(opened, path)


def report_at_end(record: RunRecord, note: Callable[[str], None]) -> None:
    """Write the report of a run that has just ended into its folder, if it has one.

    The run is complete without it: whatever goes wrong is a note of the run. The disk is not waited for, because
    ``kshot report`` writes the file again.
    """
    if record.path is None:
        return
    try:
        path = record.path / REPORT
        _check_replaceable(path)
        name = record.path.absolute().name
        _written([PageRun(_key(name), name, record, read_spec(record.path))], path, at_end=True)
    except Exception as exc:  # noqa: BLE001 - whatever it is, the run has come to its end
        said = str(exc) if isinstance(exc, KshotError) else f"{type(exc).__name__}: {exc}"
        told = one_line(f"{REPORT} was not written: {said}")
        record.notes.append(told)
        note(told)


# ---- what is written where ----


def _opened(runs: Sequence[str | Path | RunRecord]) -> list[PageRun]:
    """Read the runs, and give each a name and a key of its own."""
    if len(runs) == 1:
        record, spec = _read(runs[0])
        name = "run" if record.path is None else record.path.absolute().name
        return [PageRun(_key(name), name, record, spec)]
    from kshot.runs.compared_run import name_runs, open_run

    compared = [open_run(run) for run in runs]
    name_runs(compared)
    keys: list[str] = []
    for run in compared:
        key, number = _key(run.label), 1
        while key in keys:
            number += 1
            key = f"{_key(run.label)}-{number}"
        keys.append(key)
    return [PageRun(key, run.label, run.record, run.spec) for key, run in zip(keys, compared, strict=True)]


def _read(run: str | Path | RunRecord) -> tuple[RunRecord, Mapping[str, Any]]:
    if isinstance(run, RunRecord):
        return run, {"identity": run.settings} if run.path is None else read_spec(run.path)
    path = checked_folder("the run", run)
    return read_record(path), read_spec(path)


def _key(name: str) -> str:
    return _KEY.sub("-", name).strip("._-")[:_MAX_KEY] or "run"


def _target(runs: Sequence[PageRun], to: str | Path | None) -> Path:
    """Return the file to write; what is there and is no report stays."""
    if to is not None:
        path = Path(to).expanduser()
        if os.path.isdir(path):  # noqa: PTH112 - a name that is too long is none, and no error here
            path = path / REPORT
        if path.name.casefold() != REPORT:
            spare_runs(path)
    else:
        own = runs[0].record.path if len(runs) == 1 else None
        path = Path(REPORT) if own is None else own / REPORT
    _check_replaceable(path)
    return path


def own_report(folder: Path) -> Path | None:
    """Return the report in a run folder; None if there is none, or none that is as new as the figures."""
    path = folder / REPORT
    try:
        newer = path.lstat().st_mtime_ns >= (folder / SUMMARY).stat().st_mtime_ns
        return path if newer and GENERATOR.encode() in _beginning(path) else None
    except OSError:
        return None


def _beginning(path: Path) -> bytes:
    with open(path, "rb", opener=regular_file) as file:
        return file.read(_HEAD_BYTES)


def _check_replaceable(path: Path) -> None:
    """Refuse to replace a file that is not a report."""
    try:
        begin = _beginning(path)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise UsageError(f"it cannot be replaced: {exc.strerror or exc}", where=str(path), hint="Name a file.") from exc
    if begin and GENERATOR.encode() not in begin:
        raise UsageError("this file is not a report of kshot", where=str(path), hint="Name another file with --out.")


def _written(runs: Sequence[PageRun], path: Path, *, at_end: bool = False) -> WrittenReport:
    page, samples = report_page(runs, *_compared(runs), MAX_BYTES)
    with new_version(path, "report" if at_end else "export", fsync=not at_end, otherwise=OTHER_FILE) as file:
        file.writelines(document(page))
    return WrittenReport(path, path.stat().st_size, *samples)


def _compared(runs: Sequence[PageRun]) -> tuple[Comparison | None, str]:
    """Compare the runs with the first; return what was found, or why they cannot be compared."""
    if len(runs) == 1:
        return None, ""
    from kshot.comparing import compare

    try:
        return compare(*(run.record for run in runs)), ""
    except KshotError as exc:
        return None, str(exc)
