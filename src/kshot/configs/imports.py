"""What a config file may read: its own tree, or the folders of the files that it imports."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from kshot.configs._stand_ins import FRAMEWORKS

_TREES = ("configs", *FRAMEWORKS)
_MAX_FILES = 2000
_MAX_FILE_BYTES = 4 << 20


def readable_paths(file: Path, search_folders: Sequence[Path], root: Path | None) -> Iterator[Path]:
    """Yield what a config may read, nothing hidden.

    That is the topmost folder above it that is named as a tree of configs is, else the folders of all files that it
    imports.
    """
    trees = [folder for folder in file.parents if folder.name in _TREES]
    folders = {trees[-1]} if trees else _imported_folders(file, search_folders)
    folders |= {folder / name for folder in search_folders for name in FRAMEWORKS if (folder / name).is_dir()}
    folders |= {file.parent, *([root] if root else [])}
    for folder in folders:
        inside = list(folder.iterdir())
        if any(each.name.startswith(".") for each in inside) and folder.parent != folder:
            yield from (each for each in inside if not each.name.startswith("."))
        else:
            yield folder


def _imported_folders(file: Path, search_folders: Sequence[Path]) -> set[Path]:
    queue, seen = [file], {file}
    while queue and len(seen) < _MAX_FILES:
        for target in _imports(queue.pop(), search_folders):
            if target.is_file() and target not in seen:
                seen.add(target)
                queue.append(target)
    return {each.parent for each in seen}


def _imports(file: Path, search_folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that a config may import. They are found in its text, without running it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the confined process compiles the file again
            tree = ast.parse(file.read_text(encoding="utf-8-sig") if file.stat().st_size < _MAX_FILE_BYTES else "")
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError):
        return  # the confined process will say what is wrong
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        parts = node.module.split(".") if node.module else []
        bases: Sequence[Path] = search_folders
        if node.level:
            bases = [file.parents[node.level - 1]] if node.level <= len(file.parents) else []
        for base in bases:
            yield base.joinpath(*parts[:-1], f"{parts[-1]}.py") if parts else base / "__init__.py"
            yield base.joinpath(*parts, "__init__.py")
            yield from (base.joinpath(*parts, f"{alias.name}.py") for alias in node.names if node.level)
