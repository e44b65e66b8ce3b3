"""The files of run folders: what other commands write does not take their place."""

from __future__ import annotations

import os
from pathlib import Path

from kshot.core.errors import UsageError
from kshot.runs.folder import JOURNAL
from kshot.runs.run_state import FILES
from kshot.runs.samples_file import INDEX, WORDS
from kshot.runs.spec_file import SPEC

REPORT = "report.html"
"""What a run shows, for people; ``kshot report`` writes it again."""


def spare_runs(out: Path) -> None:
    """Refuse a path that is a file of any run. Its folder may be written in many ways: links and ``..`` are followed.

    A link at the path itself is replaced, and not written through, so that it may lead anywhere.
    """
    target = out.expanduser()
    folder = Path(os.path.realpath(target.parent))
    known = {*FILES, REPORT, INDEX, WORDS}
    if target.name.casefold() in known and _is_run(folder):
        raise UsageError("this is a file of a run", where=str(out), hint="Choose another name.")


def spare_run_folders(out: Path) -> None:
    """Refuse a folder that is the folder of a run: other files have no place there."""
    if _is_run(Path(os.path.realpath(out.expanduser()))):
        raise UsageError("this is a run folder", where=str(out), hint="Choose another folder.")


def _is_run(folder: Path) -> bool:
    return any(os.path.lexists(folder / name) for name in (SPEC, JOURNAL))
