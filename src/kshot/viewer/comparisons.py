"""Comparisons of two runs, as pages show them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kshot.runs.folder import SUMMARY
from kshot.runs.samples_file import SAMPLES
from kshot.runs.spec_file import SPEC
from kshot.viewer.catalog import ListedRun
from kshot.viewer.jobs import Jobs
from kshot.viewer.live import Versions, versions


class Comparisons:
    """Compares runs, one pair at a time; the last comparisons are kept until a file of theirs changes."""

    def __init__(self, jobs: Jobs) -> None:
        """Take what does long work."""
        self._jobs = jobs

    def of(self, baseline: ListedRun, run: ListedRun) -> dict[str, Any]:
        """Return a comparison as JSON; its state is "comparing" until it is made."""
        runs = baseline, run
        folders = [str(each.folder.absolute()) for each in runs]
        work = {"work": "compare", "folders": folders, "keys": [each.key for each in runs]}
        found = self._jobs.of(("compare", *folders), [_version(each.folder) for each in runs], work)
        nothing: dict[str, Any] = {"sections": [], **dict.fromkeys(("won", "lost", "both", "neither", "error"))}
        sides = {name: {"key": each.key, "name": each.line["name"]} for name, each in zip("ab", runs, strict=True)}
        return {"state": "comparing" if found is None else "ready", **nothing, **(found or {}), **sides}


def _version(folder: Path) -> Versions:
    return versions(folder, SPEC, SUMMARY, SAMPLES)
