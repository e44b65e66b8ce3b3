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
from typing import Any, TypeAlias

from kshot.core.errors import DataError, KshotError
from kshot.datasets.llmbox.answered import ANSWERED, STAND_INS

Parts: TypeAlias = tuple[str, ...]
"""The name of a module below the package, part by part; () is the package itself."""

DATASETS: Parts = ("dataset",)
"""The folder of dataset files, whatever its name is in the tree."""

_LIGHT = frozenset({*sys.stdlib_module_names, "numpy"})
"""What a data module may import."""


class PackageImports:
    """The ``__import__`` of one file: relative names are answered here, all others by Python.

    ``folder`` has the dataset files, and lies in the folder of the package; ``inside`` is the part of the package that
    the file belongs to. ``load`` imports a neighbour; ``neighbours`` are those that were imported, by their paths.
    """

    def __init__(
        self, file: Path, folder: Path, inside: Parts, load: Callable[[Path, Path, Parts], ModuleType]
    ) -> None:
        self._file, self._folder, self._inside, self._load = file, folder, inside, load
        self.neighbours: dict[Path, tuple[Parts, ModuleType]] = {}

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
        above = level - 1
        if above > len(self._inside):
            raise self._refused("." * level + name, "that is outside the package")
        parts = (*self._inside[: len(self._inside) - above], *(name.split(".") if name else ()))
        module = self._module(parts)
        for part in fromlist or ():
            if part != "*" and not hasattr(module, part):
                setattr(module, part, self._part(module, parts, part))
        return module

    def _module(self, parts: Parts) -> ModuleType:
        """Return a module of the package: kshot's answer, else a file of the tree."""
        if parts in {(), DATASETS}:
            return ModuleType(".".join(("package", *parts)))
        answer = ANSWERED.get(".".join(parts))
        if answer is None and parts[0] == "metric" and self._readable(parts) is None:
            answer = ANSWERED["metric"]  # one metric by itself
        return answer() if answer is not None else self._from_tree(parts)

    def _part(self, module: ModuleType, parts: Parts, name: str) -> Any:
        """Return what ``from module import name`` means where kshot's answer, or the package, has no such name."""
        if parts in {(), DATASETS} or ".".join((*parts, name)) in ANSWERED:
            return self._module((*parts, name))
        if parts and ".".join(parts) in ANSWERED and self._readable(parts) is not None:
            own = self._from_tree(parts)
            if hasattr(own, name):
                return getattr(own, name)
        known = ", ".join(sorted(key for key in vars(module) if not key.startswith("_")))
        raise self._refused(f"{name} of {'.'.join(parts)}", f"there is {known or 'nothing'}")

    def _place(self, parts: Parts) -> Path | None:
        """Return the file of a module of the tree."""
        if parts in {(), DATASETS}:
            return None
        below = self._folder if parts[:1] == DATASETS else self._folder.parent
        path = below.joinpath(*(parts[1:] if parts[:1] == DATASETS else parts))
        return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)

    def _readable(self, parts: Parts) -> Path | None:
        """Return the file of a module that is light enough to be run: it imports nothing but the standard library."""
        path = self._place(parts)
        return path if path is not None and not {*_imports_of(path)} - _LIGHT else None

    def _from_tree(self, parts: Parts) -> ModuleType:
        path = self._place(parts)
        if path is None:
            raise self._refused(".".join(parts), "there is no such file in the tree")
        if parts[:1] != DATASETS and (heavy := sorted({*_imports_of(path)} - _LIGHT)):
            why = f"{path.name} is no data module: it imports {', '.join(heavy)}, and kshot does not run it"
            raise self._refused(".".join(parts), why)
        inside = parts if path.name == "__init__.py" else parts[:-1]
        module = self._load(path, self._folder, inside)
        self.neighbours[path] = (inside, module)
        return module

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
