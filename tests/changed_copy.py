"""A copy of kshot that somebody has changed: how many places must be touched to add one thing is counted by doing it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import kshot


def changed_copy(folder: Path, additions: dict[tuple[str, str], str], files: dict[str, str] | None = None) -> Path:
    """Copy the package into a folder, and return the folder.

    ``additions``: by file and text, what is added after that text; ``files``: the texts of new files.
    """
    package = folder / "kshot"
    shutil.copytree(Path(kshot.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for (name, anchor), added in additions.items():
        text = (package / name).read_text()
        assert text.count(anchor) == 1, f"{name} has changed: {anchor}"
        (package / name).write_text(text.replace(anchor, anchor + added))
    for name, text in (files or {}).items():
        assert not (package / name).exists(), name
        (package / name).write_text(text)
    return folder


def run_copy(
    copy: Path, *arguments: str, cwd: Path, program: tuple[str, ...] = ("-m", "kshot")
) -> subprocess.CompletedProcess[str]:
    """Run a command of the copy, or another Python program that imports it."""
    environment = {name: value for name, value in os.environ.items() if name != "COVERAGE_PROCESS_CONFIG"}
    return subprocess.run(
        [sys.executable, *program, *arguments],
        cwd=cwd,
        env=environment | {"PYTHONPATH": f"{copy}{os.pathsep}{cwd}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
