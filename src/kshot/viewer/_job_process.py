"""The process that does a job of a viewer: the job on stdin, what it found on stdout, both as JSON."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kshot.core.errors import KshotError


def main() -> None:
    """Do the job; what is wrong with a run is an ``error``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the viewer, which ends this process
    job = json.loads(sys.stdin.buffer.read())
    try:
        found = _WORK[job["work"]](job)
    except KshotError as exc:
        found = {"error": str(exc)}
    sys.stdout.buffer.write(json.dumps(found).encode())


def _compare(job: Mapping[str, Any]) -> dict[str, Any]:
    from kshot.comparing import compare
    from kshot.viewer.live import comparison_page

    return comparison_page(compare(*job["folders"]), job["keys"])


def _sections(job: Mapping[str, Any]) -> dict[str, Any]:
    from kshot.viewer.live import page_sections

    return {"sections": page_sections(Path(job["folder"]), job["key"], job["name"], samples=True)}


_WORK = {"compare": _compare, "sections": _sections}
