"""Task files and functions of our own, for tests."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

from kshot.lmeval.files import FunctionRef, read_body, task_config
from kshot.lmeval.functions import Functions
from kshot.lmeval.task_file import TaskFile


def write(folder: Path, **texts: str) -> Path:
    """Write files by name (``utils_py`` is ``utils.py``), and return the folder."""
    for name, text in texts.items():
        stem, _, ending = name.rpartition("_")
        path = folder / f"{stem.replace('__', '/')}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return folder


def task(folder: Path, keys: dict[str, Any], functions: Functions | None = None) -> TaskFile:
    """Return a task of these keys, as a file in a folder has them."""
    path = folder / "task.yaml"
    body = {"task": "birds", "test_split": "test", "doc_to_text": "{{q}}", "doc_to_target": "{{a}}", **keys}
    return TaskFile(task_config(body, path, folder), functions or Functions(folder))


def ref(folder: Path, name: str, module: str = "utils") -> FunctionRef:
    """Return what ``!function utils.NAME`` names in a file of a folder."""
    return FunctionRef(folder / f"{module}.py", module, name, f"{folder}/task.yaml:3:1")


def read(folder: Path, text: str) -> TaskFile:
    """Write a task file, and return its task."""
    path = write(folder, task_yaml=text) / "task.yaml"
    return TaskFile(task_config(read_body(path, folder), path, folder))
