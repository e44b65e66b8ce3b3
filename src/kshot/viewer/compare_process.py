"""The process that compares two runs for a viewer: a job on stdin, the JSON of the comparison on stdout."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict
from typing import Any

from kshot.comparing import compare
from kshot.core.errors import KshotError
from kshot.report.comparison import headline_rows
from kshot.report.page.run_sections import comparison_sections
from kshot.runs.comparing import Comparison


def main() -> None:
    """Compare the runs of the job; the baseline comes first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the viewer, which ends this process
    job = json.loads(sys.stdin.buffer.read())
    sys.stdout.buffer.write(json.dumps(compared(job["folders"], job["keys"])).encode())


def compared(folders: list[str], keys: list[str]) -> dict[str, Any]:
    """Return the sections and counts of a comparison, or the error."""
    try:
        found = compare(*folders)
        labels = [each["label"] for each in found.runs]
        sections = comparison_sections(found, dict(zip(labels, keys, strict=True)))
    except KshotError as exc:
        return {"error": str(exc)}
    return {"sections": [{**asdict(each), "html": str(each.html)} for each in sections], **_counts(found)}


def _counts(found: Comparison) -> dict[str, Any]:
    """Return how many questions each side alone gets right, by the headline metric of each task."""
    rows = [row for row in headline_rows(found.rows) if "average" not in row]
    return {name: sum(row[name] for row in rows) for name in ("won", "lost")}
