"""The files of gates: JUnit XML, and the summary of a GitHub step."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kshot.core.durable import new_version, writing
from kshot.core.records import ResultRow
from kshot.core.text_files import regular_file
from kshot.report.junit import junit_xml
from kshot.report.step_summary import MAX_BYTES, step_summary
from kshot.runs.record import RunRecord
from kshot.runs.spec_file import read_spec


def write_junit(path: Path, record: RunRecord, gates: Sequence[ResultRow]) -> None:
    """Write JUnit XML in the place of what was there."""
    sessions = read_spec(record.path).get("sessions", []) if record.path is not None else []
    session = sessions[-1] if sessions else {}
    text = junit_xml(record.results, gates, str(record.path), session)
    with new_version(path, advice=_figures_kept(record)) as file:
        file.write(text)


def add_summary(path: Path, record: RunRecord, gates: Sequence[ResultRow]) -> None:
    """Add a summary to a file, which may hold what earlier commands of the step have written."""
    with writing(path, _figures_kept(record)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab", opener=regular_file) as file:
            room = MAX_BYTES - os.fstat(file.fileno()).st_size
            file.write(step_summary(record, gates, room).encode())


def _figures_kept(record: RunRecord) -> str:
    return f"The figures are in the run folder {record.path}."
