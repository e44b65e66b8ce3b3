"""``work_dir`` of a config: where the home would write its results, and where the run folder then lies."""

from __future__ import annotations

from pathlib import Path

from kshot.configs.loader import load
from kshot.configs.named_paths import config_file
from kshot.core.errors import KshotError


def work_folder(path: Path, home: str | None, config_root: str | None = None) -> str | None:
    """Return the ``work_dir`` of a config that names one below the current folder; None: it names none there.

    A config does not choose where else files are written.
    """
    try:
        if b"work_dir" not in config_file(path).read_bytes():
            return None
        config = load(path, config_root, home=home)
    except (OSError, KshotError):
        return None  # running the config will say what is wrong
    config.close()
    named = config.variables.get("work_dir")
    if not isinstance(named, str) or not named.strip():
        return None
    here = Path.cwd().resolve()
    place = (here / named).resolve()
    return str(place.relative_to(here)) if place != here and place.is_relative_to(here) else None
