"""The source of a guest's project: its files, and which module gives a name, without running anything.

Runs inside the confined process; standard library only.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CALLED = re.compile(r"(?m)^\s*[A-Za-z_.]+\.register_module\(")
_IMPORT_ONLY = (ast.Import, ast.ImportFrom)


class SourceFile:
    """A Python file of the project, and what can be said of it without running it."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib takes long to load
            self.text = importlib.util.decode_source(file.read())
        self._tree: ast.Module | None = None

    @property
    def tree(self) -> ast.Module:
        """The parsed text."""
        if self._tree is None:
            self._tree = ast.parse(self.text, self.path)
        return self._tree

    def statements(self) -> Iterator[ast.stmt]:
        """Yield the statements of the file itself, those inside ``if`` and ``try`` too."""
        waiting = list(self.tree.body)[::-1]
        while waiting:
            statement = waiting.pop()
            yield statement
            for part in ("body", "orelse", "finalbody") if isinstance(statement, (ast.If, ast.Try, ast.With)) else ():
                waiting += getattr(statement, part, [])[::-1]
            for handler in getattr(statement, "handlers", ()) if isinstance(statement, ast.Try) else ():
                waiting += handler.body[::-1]

    def only_imports(self) -> bool:
        """Whether it does nothing but import: a package's list of what is in it."""
        return all(
            isinstance(each, _IMPORT_ONLY)
            or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
            or (isinstance(each, (ast.Assign, ast.AugAssign)) and "__" in ast.unparse(each).partition("=")[0])
            for each in self.tree.body
        )

    def guarded_lines(self) -> set[int]:
        """Return the lines whose imports may fail: the file itself says what happens then."""
        return {
            line
            for each in self.statements()
            if isinstance(each, ast.Try) and each.handlers
            for inner in each.body
            for line in range(inner.lineno, (inner.end_lineno or inner.lineno) + 1)
        }


class GuestProject:
    """The packages of the guest's project: where their files are, and which module gives a name."""

    def __init__(self, packages: Mapping[str, str]) -> None:
        """``packages``: the folder of each package, by the package's name, which may be dotted (``host.part``)."""
        self.packages = dict(packages)
        self._files: dict[str, SourceFile | None] = {}

    def path(self, module: str) -> str | None:
        """Return the file of a module; None where there is none."""
        owner = self._owner(module)
        rest = module[len(owner) + 1 :].split(".") if module != owner else []
        place = os.path.join(self.packages[owner], *rest)  # noqa: PTH118 - pathlib takes long to load
        for file in (os.path.join(place, "__init__.py"), f"{place}.py" if rest else ""):  # noqa: PTH118 - as above
            if file and os.path.isfile(file):  # noqa: PTH113 - as above
                return file
        return place if os.path.isdir(place) else None  # noqa: PTH112 - as above

    def source(self, module: str) -> SourceFile | None:
        """Return the file of a module, parsed when it is needed; None for a folder and for what there is not."""
        if module not in self._files:
            path = self.path(module) if self.holds(module) else None
            self._files[module] = SourceFile(path) if path and path.endswith(".py") else None
        return self._files[module]

    def holds(self, module: str) -> bool:
        """Whether a module is one of the project's, by its name."""
        return bool(self._owner(module))

    def _owner(self, module: str) -> str:
        """Return the package that a module belongs to; an empty text: none of the project's."""
        while module and module not in self.packages:
            module = module.rpartition(".")[0]
        return module

    def gives(self, module: str, name: str, seen: frozenset[str] = frozenset()) -> tuple[str, str] | None:
        """Return the module that defines a name of another one, and its name there; None: there is no such name."""
        source = self.source(module)
        if source is None or module in seen or not (name in source.text or "import *" in source.text):
            return None
        stars: list[str] = []
        for statement in reversed(list(source.statements())):  # the last one that gives a name counts
            if isinstance(statement, ast.ImportFrom):
                origin = self._absolute(module, source.path, statement)
                for alias in statement.names:
                    if alias.name == "*":
                        stars.append(origin)
                    elif (alias.asname or alias.name) == name:
                        return (origin, alias.name) if self.holds(origin) else (module, name)
            elif _defines(statement, name):
                return module, name
            while stars:
                origin, above = stars.pop(), seen | {module}
                found = self.gives(origin, name, above) if self.holds(origin) else None
                if found is not None and found[0] not in above:  # else it imports the name from here itself
                    return found
        return None

    def search(self, below: str, name: str) -> Iterator[str]:
        """Yield the modules below a package that define a class or function of this name."""
        return (found for found, source in self._mentioning(below, name) if _has(source, name))

    def registered(self, name: str, registries: frozenset[str]) -> Iterator[tuple[str, str]]:
        """Yield modules that register something under a name, and what it is called there."""
        for top in self.packages:
            for module, source in self._mentioning(top, name):
                for statement in source.statements():
                    if isinstance(statement, (ast.ClassDef, ast.FunctionDef)):
                        for decorator in statement.decorator_list:
                            if name in _registered_names(decorator, statement.name, registries):
                                yield module, statement.name

    def registering(self) -> Iterator[str]:
        """Yield the modules that register things by a call, and not by a decorator."""
        for top in self.packages:
            for module, source in self._mentioning(top, "register_module"):
                if _CALLED.search(source.text):
                    yield module

    def names_below(self, module: str) -> list[str]:
        """Return the names that ``import *`` takes from a package whose file only imports."""
        source = self.source(module)
        found: list[str] = []
        for statement in source.statements() if source else ():
            if isinstance(statement, ast.ImportFrom):
                origin = self._absolute(module, source.path if source else "", statement)
                for alias in statement.names:
                    found += self._public(origin) if alias.name == "*" else [alias.asname or alias.name]
        return list(dict.fromkeys(found))

    def _public(self, module: str) -> list[str]:
        source = self.source(module) if self.holds(module) else None
        if source is None:
            return []
        if source.only_imports():
            return self.names_below(module)
        own = [each.name for each in source.statements() if isinstance(each, (ast.ClassDef, ast.FunctionDef))]
        return [name for name in own if not name.startswith("_")]

    def _absolute(self, module: str, path: str, statement: ast.ImportFrom) -> str:
        if not statement.level:
            return statement.module or ""
        parts = module.split(".")
        keep = len(parts) - statement.level + (os.path.basename(path) == "__init__.py")  # noqa: PTH119 - pathlib takes long to load
        return ".".join([*parts[:keep], *([statement.module] if statement.module else [])])

    def _mentioning(self, below: str, name: str) -> Iterator[tuple[str, SourceFile]]:
        root = self.path(below)
        if root is None:
            return
        folder = os.path.dirname(root) if root.endswith(".py") else root  # noqa: PTH120 - pathlib takes long to load
        word = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])")
        for place, folders, files in os.walk(folder):
            folders[:] = sorted(each for each in folders if each.isidentifier() and each != "configs")
            for file in sorted(each for each in files if each.endswith(".py")):
                path = os.path.relpath(os.path.join(place, file), folder)  # noqa: PTH118 - as above
                parts = path[: -len(".py")].split("/")
                module = ".".join([below, *(part for part in parts if part not in {"__init__", "."})])
                try:
                    source = self.source(module)
                    if source is not None and word.search(source.text):
                        yield module, source
                except (SyntaxError, UnicodeDecodeError, OSError):
                    continue


def _defines(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return statement.name == name
    if isinstance(statement, ast.Import):
        return any((alias.asname or alias.name.partition(".")[0]) == name for alias in statement.names)
    one = [statement.target] if isinstance(statement, (ast.AnnAssign, ast.AugAssign)) else []
    targets = statement.targets if isinstance(statement, ast.Assign) else one
    return any(isinstance(each, ast.Name) and each.id == name for target in targets for each in ast.walk(target))


def _has(source: SourceFile, name: str) -> bool:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return any(isinstance(each, kinds) and each.name == name for each in source.statements())


def _registered_names(decorator: ast.expr, own: str, registries: frozenset[str]) -> set[str]:
    """Return the names under which ``@REGISTRY.register_module(…)`` registers something."""
    if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Attribute):
        return set()
    registry = decorator.func.value.id if isinstance(decorator.func.value, ast.Name) else ""
    if decorator.func.attr != "register_module" or (registries and registry not in registries):
        return set()
    given = [*decorator.args, *(each.value for each in decorator.keywords if each.arg == "name")]
    texts = {each.value for part in given for each in ast.walk(part) if isinstance(each, ast.Constant)}
    return {each for each in texts if isinstance(each, str)} or {own}
