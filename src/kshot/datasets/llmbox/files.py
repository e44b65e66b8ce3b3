"""Importing a dataset file: one that belongs to a package gets the package around it."""

from __future__ import annotations

import ast
import builtins
from functools import partial
from pathlib import Path
from types import ModuleType

from kshot.core.registry import forget_plugin_file, load_plugin_file, objects_of
from kshot.datasets.dataset import Dataset, snake_case
from kshot.datasets.llmbox import programs
from kshot.datasets.llmbox.imports import DATASETS, PackageImports, Parts

_IMPORTS = "__kshot_imports__"
"""Under this name a module keeps what its imports are answered by."""


def load_dataset_file(path: Path, name: str = "") -> ModuleType:
    """Import a file of dataset classes; one with relative imports gets the package that it lies in."""
    if not has_relative_imports(path):
        return load_plugin_file(path, name)
    prepare = partial(_prepare, folder=path.resolve().parent, inside=DATASETS)
    module = load_plugin_file(path, name, prepare)
    if not _neighbours_are_same(module):
        forget_plugin_file(path)
        module = load_plugin_file(path, name, prepare)
    return _name_classes(module)


def has_relative_imports(path: Path) -> bool:
    """Whether a file imports from the package that it lies in; what is no Python has no imports."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.ImportFrom) and node.level > 0 for node in ast.walk(tree))


def _prepare(module: ModuleType, folder: Path, inside: Parts) -> None:
    """Answer the imports of a module, and its exec and eval, those inside its functions too."""
    file = Path(str(module.__file__))
    imports = PackageImports(file, folder, inside, _neighbour)
    vars(module)[_IMPORTS] = (folder, imports)
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": imports, **programs.answers(file)}


def _neighbour(path: Path, folder: Path, inside: Parts) -> ModuleType:
    return _name_classes(load_plugin_file(path, "", partial(_prepare, folder=folder, inside=inside)))


def _neighbours_are_same(module: ModuleType) -> bool:
    """Use the neighbours of a module once more: a run records every file that it used, and one may have changed."""
    folder: Path
    imports: PackageImports
    folder, imports = vars(module)[_IMPORTS]
    return all(
        _neighbour(path, folder, inside) is found and _neighbours_are_same(found)
        for path, (inside, found) in tuple(imports.neighbours.items())
    )


def _name_classes(module: ModuleType) -> ModuleType:
    """Give the datasets of a file the names that LLMBox knows them by: the file's name, if it has only one."""
    own = [each for each in objects_of(module).values() if isinstance(each, type) and issubclass(each, Dataset)]
    for each in own:
        if "name" not in vars(each):
            each.name = Path(str(module.__file__)).stem if len(own) == 1 else snake_case(each.__name__)
    return module
