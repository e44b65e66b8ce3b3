"""The paths that a user names for a config: its file, and the folder of its home. Whatever is wrong is one message."""

from __future__ import annotations

import os
from pathlib import Path

from kshot.configs._stand_ins import FRAMEWORKS
from kshot.core.errors import DataError, UsageError


def config_file(given: str | Path) -> Path:
    """Return the real path of a config file."""
    file = _real(given)
    if file is None or not os.path.isfile(file):  # noqa: PTH113 - pathlib raises for names that are too long
        raise DataError("there is no such file", where=str(given))
    return file


def root_folder(given: str | Path, option: str = "--config-root") -> Path:
    """Return the real path of a folder that an option names."""
    if not str(given):
        raise UsageError(f"{option} is empty", hint="Name a folder, or leave it out.")
    where = f"{option} {given}"
    folder = _real(given)
    if folder is None:
        raise UsageError(
            "there is no such user" if str(given).startswith("~") else "there is no such folder", where=where
        )
    if os.path.isfile(folder):  # noqa: PTH113 - as above
        raise UsageError("it is a file, not a folder", where=where)
    if not os.path.isdir(folder):  # noqa: PTH112 - as above
        raise UsageError("there is no such folder", where=where)
    return folder


def home_folder(given: str | Path, file: Path) -> Path:
    """Return the real path of the folder that ``--home`` names: it has a home, or a config that lies in it."""
    folder = root_folder(given, "--home")
    lies_in = [each.name for each in (folder, *folder.parents)]
    if file.is_relative_to(folder) or any(name in lies_in or (folder / name).is_dir() for name in FRAMEWORKS):
        return folder
    named = " nor ".join(f"a folder {name}" for name in reversed(FRAMEWORKS))
    hint = "Name a clone of OpenCompass or AISBench, or the folder of its package."
    raise UsageError(f"there is neither {named} in it", where=f"--home {given}", hint=hint)


def package_parents(folder: Path | None) -> list[Path]:
    """Return the folders that hold the package in which a folder lies: imports by the package's name begin there."""
    if folder is None:
        return []
    return [each.parent for each in (folder, *folder.parents) if each.name in FRAMEWORKS]


def _real(given: str | Path) -> Path | None:
    """Return a real path; None where it cannot be one: no such user, or letters that no path has."""
    try:
        return Path(os.path.realpath(Path(given).expanduser()))
    except (RuntimeError, ValueError, OSError):
        return None
