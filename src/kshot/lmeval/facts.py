"""What a run records about a task file: which files it was made of."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from kshot.core.text_files import read_at_most
from kshot.lmeval.files import TaskConfig
from kshot.lmeval.functions import references

_DIGEST_BYTES = 8


def has_functions(config: TaskConfig) -> bool:
    """Whether a task names functions."""
    return next(references(config), None) is not None


def file_facts(config: TaskConfig) -> dict[str, Any]:
    """Return the version that the task gives itself, and a digest of each YAML and Python file that it names."""
    functions = [each.file for each in references(config) if each.file is not None]
    files = dict.fromkeys([*config.files, *functions])
    facts: dict[str, Any] = {"files": {_shown(file, config): _digest(file) for file in files}}
    version = (config.metadata or {}).get("version")
    return facts | ({"version": version} if isinstance(version, (int, float, str)) else {})


def changed_files(now: Mapping[str, Any], earlier: Mapping[str, Any]) -> list[str]:
    """Return the files of a task that are not what an earlier run recorded; none where it recorded nothing."""
    before = earlier.get("files")
    files: Mapping[str, Any] = now["files"]
    return [name for name, digest in files.items() if isinstance(before, dict) and before.get(name) != digest]


def _shown(file: Path, config: TaskConfig) -> str:
    """Return the path of a file from the root of its tree, which may lie elsewhere on another machine."""
    root = config.root
    return file.relative_to(root).as_posix() if root is not None and file.is_relative_to(root) else str(file)


def _digest(file: Path) -> str:
    try:
        return blake2b(read_at_most(file), digest_size=_DIGEST_BYTES).hexdigest()
    except OSError:  # it was removed since
        return ""
