"""The process that compares two runs for a viewer: a job on stdin, the JSON of the comparison on stdout."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
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
    try:
        found = compare(*job["folders"])
        answer = comparison_page(found, job["keys"])
    except KshotError as exc:
        answer = {"error": str(exc)}
    sys.stdout.buffer.write(json.dumps(answer).encode())


def comparison_page(found: Comparison, keys: Sequence[str]) -> dict[str, Any]:
    """Return the sections and counts of a comparison of two runs with these keys."""
    labels = [each["label"] for each in found.runs]
    sections = comparison_sections(found, dict(zip(labels, keys, strict=True)))
    return {"sections": [{**asdict(each), "html": str(each.html)} for each in sections], **_counts(found)}


def _counts(found: Comparison) -> dict[str, int | None]:
    """Return how many questions one side alone gets right, both, or neither, by the headlines that say right or wrong.

    Where none does, only which side has the higher score is counted.
    """
    rows = [row for row in headline_rows(found.rows) if "average" not in row]
    binary = [row for row in rows if row.get("both") is not None]
    counts: dict[str, int | None] = {name: sum(row[name] for row in binary or rows) for name in ("won", "lost")}
    return counts | {name: sum(row[name] for row in binary) if binary else None for name in ("both", "neither")}
