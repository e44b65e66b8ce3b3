"""What ``import`` means in a dataset file of LLMBox.

Base classes, metrics and helpers are kshot's own. Data modules and other dataset files are read from the tree beside
the file. Nothing else of the package is run: it would need torch and more to import.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from kshot.core.errors import DataError, KshotError
from kshot.datasets.llmbox.answered import ANSWERED, STAND_INS

_LIGHT = frozenset({*sys.stdlib_module_names, "numpy"})
"""What a data module may import."""


class PackageImports:
    """The ``__import__`` of one file: relative names are answered here, all others by Python.

    The file lies in a folder of datasets, and that folder in the folder of the package. ``load`` imports a neighbour;
    ``neighbours`` are those that were imported, by their paths.
    """

    def __init__(self, file: Path, load: Callable[[Path], ModuleType]) -> None:
        self._file, self._load = file, load
        self.neighbours: dict[Path, ModuleType] = {}

    def __call__(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - Python's name
        locals: Mapping[str, Any] | None = None,  # noqa: A002 - Python's name
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import a module as the statement says."""
        if level == 0:
            stand_in = STAND_INS.get(name.partition(".")[0])
            found = stand_in() if stand_in is not None else None
            return found or builtins.__import__(name, globals, locals, fromlist or (), level)
        places = {1: ("dataset",), 2: ()}
        if level not in places:
            raise self._refused("." * level + name, "the file lies in a package of two levels")
        parts = (*places[level], *(name.split(".") if name else ()))
        module = self._module(parts)
        for part in fromlist or ():
            if not hasattr(module, part) and part != "*":
                setattr(module, part, self._part(module, parts, part))
        return module

    def _module(self, parts: tuple[str, ...]) -> ModuleType:
        """Return a module of the package: kshot's answer, else a file of the tree."""
        if parts in {(), ("dataset",)}:
            return ModuleType(".".join(("package", *parts)))
        answer = ANSWERED.get(".".join(parts)) or (ANSWERED["metric"] if parts[0] == "metric" else None)
        return answer() if answer is not None else self._from_tree(parts)

    def _part(self, module: ModuleType, parts: tuple[str, ...], name: str) -> Any:
        """Return what ``from module import name`` means where the module has no such name: a module below it."""
        answered = parts and (".".join(parts) in ANSWERED or parts[0] == "metric")
        if answered and ".".join((*parts, name)) not in ANSWERED:
            known = ", ".join(sorted(key for key in vars(module) if not key.startswith("_")))
            raise self._refused(f"{name} of {'.'.join(parts)}", f"kshot knows {known}")
        if not answered and self._place(parts) is not None and parts not in {(), ("dataset",)}:
            raise self._refused(f"{name} of {'.'.join(parts)}", "that module has no such name")
        return self._module((*parts, name))

    def _place(self, parts: tuple[str, ...]) -> Path | None:
        """Return the file of a module of the tree."""
        folder = self._file.parent if parts[:1] == ("dataset",) else self._file.parent.parent
        inner = parts[1:] if parts[:1] == ("dataset",) else parts
        if not inner:
            return None
        path = folder.joinpath(*inner)
        found = (path.with_suffix(".py"), path / "__init__.py")
        return next((each for each in found if each.is_file()), None)

    def _from_tree(self, parts: tuple[str, ...]) -> ModuleType:
        path = self._place(parts)
        if path is None:
            raise self._refused(".".join(parts), "there is no such file in the tree")
        if parts[0] != "dataset" and (heavy := sorted({*_imports_of(path)} - _LIGHT)):
            raise self._refused(
                ".".join(parts),
                f"{path.name} is no data module: it imports {', '.join(heavy)}, and kshot does not run it",
            )
        self.neighbours[path] = self._load(path)
        return self.neighbours[path]

    def _refused(self, what: str, why: str) -> KshotError:
        return DataError(
            f"it imports {what}; {why}",
            where=str(self._file),
            hint="kshot answers base classes, metrics and helpers, and reads data modules and dataset files beside it.",
        )


def _imports_of(path: Path) -> Iterator[str]:
    """Yield the packages that a file imports when it runs, outside its functions."""
    waiting: list[ast.AST] = [ast.parse(path.read_bytes())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module).partition(".")[0]
        waiting.extend(ast.iter_child_nodes(node))
