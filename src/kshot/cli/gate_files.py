"""The files of gates: JUnit XML, and the summary of a GitHub step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kshot.core.durable import OTHER_FILE, new_version, writing
from kshot.core.text_files import regular_file
from kshot.report.junit import junit_xml
from kshot.report.step_summary import MAX_BYTES, step_summary
from kshot.runs.gates import Checked
from kshot.runs.record import RunRecord
from kshot.runs.run_state import spare_runs
from kshot.runs.spec_file import read_spec


def write_junit(path: Path, record: RunRecord, checked: Checked) -> None:
    """Write JUnit XML in the place of what was there."""
    spare_runs(path)
    text = junit_xml(record.results, checked.rows, str(record.path), _session(record), checked.notes)
    with new_version(path, advice=_figures_kept(record), otherwise=OTHER_FILE) as file:
        file.write(text)


def _session(record: RunRecord) -> Mapping[str, Any]:
    """Return what is recorded of the last start of a run; nothing, where the run is what could not be read."""
    if record.path is None or not record.results:
        return {}
    sessions = read_spec(record.path).get("sessions", [])
    return sessions[-1] if sessions else {}


def add_summary(path: Path, record: RunRecord, checked: Checked) -> None:
    """Add a summary to a file, which may hold what earlier commands of the step have written."""
    spare_runs(written_to(path))
    with writing(path, _figures_kept(record), OTHER_FILE):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab", opener=regular_file) as file:
            room = MAX_BYTES - os.fstat(file.fileno()).st_size
            file.write(step_summary(record, checked.rows, checked.notes, room).encode())


def written_to(path: Path) -> Path:
    """Return the file that is written if something is added to a path: links are followed."""
    return Path(os.path.realpath(path))


def _figures_kept(record: RunRecord) -> str:
    return f"The figures are in the run folder {record.path}." if record.results else ""
