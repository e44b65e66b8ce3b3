"""Where trees of task files are: a clone of lm-evaluation-harness, the installed package, or the user's own folder."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from kshot.core.errors import UsageError

ROOT_HINT = (
    "Add --lmeval-root DIR: a clone of lm-evaluation-harness, or a folder with your own task files; "
    "or install the package: pip install lm_eval."
)


def root_of(given: str | Path | None) -> Path:
    """Return the folder of tasks: that of a clone, of the package, or the user's own."""
    if given is None:
        installed = installed_root()
        if installed is None:
            raise UsageError("a task of lm-eval is found by its name where lm-eval's files are", hint=ROOT_HINT)
        return installed
    folder = Path(os.path.expanduser(given))  # noqa: PTH111 - pathlib raises for users that there are not
    if not folder.is_dir():
        raise UsageError("there is no such folder", where=f"--lmeval-root {given}", hint=ROOT_HINT)
    folder = folder.resolve()
    inner = [folder / "lm_eval" / "tasks", *([folder / "tasks"] if folder.name == "lm_eval" else [])]
    return next((each for each in inner if each.is_dir()), folder)


def installed_root() -> Path | None:
    """Return the tasks of an installed lm_eval, which is not imported; None where there is none."""
    spec = find_spec("lm_eval")
    places = [Path(place) / "tasks" for place in spec.submodule_search_locations or ()] if spec is not None else []
    return next((place.resolve() for place in places if place.is_dir()), None)


def root_around(path: Path) -> Path:
    """Return the tree that holds a path which the user named without one."""
    around = [path, *path.parents]
    known = next((each for each in around if each.name == "tasks" and each.parent.name == "lm_eval"), None)
    return known or (path if path.is_dir() else path.parent)
