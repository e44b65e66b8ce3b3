"""The modules of a guest: the project whose code it runs, what stands in for other packages, what is put off.

Runs inside the confined process; standard library only. A package of the project whose ``__init__`` only imports is not
run: a name is looked up in the module that gives it, and no other module is loaded. What the project's modules import
from heavy packages is imported when it is used (``_guest_deferred``); a missing package is an error when it is used.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import os
import re
import sys
import types
from importlib.abc import Loader, MetaPathFinder

from kshot.sandbox._guest_deferred import Deferred, MissingPackage

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from importlib.machinery import ModuleSpec
    from typing import Any

_CALLED = re.compile(r"(?m)^\s*[A-Za-z_.]+\.register_module\(")
_IMPORT_ONLY = (ast.Import, ast.ImportFrom)


class NoSuchNameError(AttributeError):
    """A name that the project does not have; everything else that goes wrong is another error."""


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
                origin = stars.pop()
                if self.holds(origin) and (found := self.gives(origin, name, seen | {module})) is not None:
                    return found
        return None

    def search(self, below: str, name: str) -> str | None:
        """Return a module below a package that defines a class or function of this name."""
        return next((found for found, source in self._mentioning(below, name) if _has(source, name)), None)

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
    targets = (
        statement.targets
        if isinstance(statement, ast.Assign)
        else [statement.target]
        if isinstance(statement, (ast.AnnAssign, ast.AugAssign))
        else []
    )
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


class ProjectImporter(Loader, MetaPathFinder):
    """Loads the project's modules, and answers their imports."""

    def __init__(
        self,
        project: GuestProject,
        *,
        stand_ins: Mapping[str, Callable[[], types.ModuleType]],
        deferred: frozenset[str],
    ) -> None:
        """``stand_ins``: modules to use in place of packages, by name; ``deferred``: packages to import when used."""
        self.project, self._stand_ins, self._deferred = project, dict(stand_ins), deferred
        self._loading_depth = 0
        self._guarded: dict[str, set[int]] = {}
        self._real_import = builtins.__import__
        sys.meta_path.insert(0, self)

    def loading(self) -> bool:
        """Whether modules of the project are being loaded."""
        return self._loading_depth > 0

    # ---- finder and loader ----

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002 - as importlib calls it
        """Find a module of the project, or one that stands in for another package's."""
        if name in self._stand_ins:
            return importlib.util.spec_from_loader(name, self, is_package=True)
        place = self.project.path(name) if self.project.holds(name) else None
        if place is None:
            return None
        package = not place.endswith(".py") or os.path.basename(place) == "__init__.py"  # noqa: PTH119 - pathlib takes long to load
        spec = importlib.util.spec_from_loader(name, self, is_package=package, origin=place)
        if spec is not None and package:
            folder = os.path.dirname(place) if place.endswith(".py") else place  # noqa: PTH120 - as above
            spec.submodule_search_locations = [folder]
        return spec

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        """Make a module that stands in for another; importlib makes the others."""
        make = self._stand_ins.get(spec.name)
        return None if make is None else make()

    def exec_module(self, module: types.ModuleType) -> None:
        """Run a module of the project; a package that only imports is not run."""
        name = module.__name__
        if name in self._stand_ins:
            return
        source = self.project.source(name)
        if source is None:
            return
        module.__file__ = source.path
        if os.path.basename(source.path) == "__init__.py" and source.only_imports():  # noqa: PTH119 - pathlib takes long to load
            self._make_lazy(module)
            return
        self._run(module, source)

    def load_file(self, name: str, path: str) -> types.ModuleType:
        """Load a file of the project as the module of this name, once; the packages above it are not loaded."""
        if name in sys.modules:
            return sys.modules[name]
        module = sys.modules[name] = types.ModuleType(name)
        module.__file__, module.__package__ = path, name.rpartition(".")[0]
        try:
            self._run(module, SourceFile(path))
        except BaseException:
            del sys.modules[name]
            raise
        return module

    def _run(self, module: types.ModuleType, source: SourceFile) -> None:
        self._guarded[source.path] = source.guarded_lines()
        space = vars(module)
        space["__builtins__"] = {**vars(builtins), "__import__": self._import}
        self._loading_depth += 1
        try:
            exec(compile(source.text, source.path, "exec", dont_inherit=True), space)  # noqa: S102 - this process is confined
        finally:
            self._loading_depth -= 1

    def _make_lazy(self, module: types.ModuleType) -> None:
        name = module.__name__

        def attribute(wanted: str) -> Any:
            if wanted == "__all__":
                return self.project.names_below(name)
            if wanted.startswith("__"):
                raise AttributeError(wanted)
            return self._found(name, wanted)

        module.__getattr__ = attribute  # type: ignore[method-assign]  # modules may have one

    def _found(self, package: str, name: str) -> Any:
        """Return what a package gives a name."""
        given = self.project.gives(package, name)
        if given is not None and given[0] != package:
            origin, own_name = given
            if self.project.path(f"{origin}.{own_name}") is not None and self.project.gives(origin, own_name) is None:
                return loaded(f"{origin}.{own_name}")
            return getattr(loaded(origin), own_name)
        if self.project.path(f"{package}.{name}") is not None:
            return loaded(f"{package}.{name}")
        module = self.project.search(package, name)
        if module is not None and module != package:
            return getattr(loaded(module), name)
        raise NoSuchNameError(f"there is no {name!r} in {package}")

    # ---- imports of the project's modules ----

    def _import(self, name: str, space: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> Any:
        top = name.partition(".")[0]
        if level or self.project.holds(name) or name in self._stand_ins:
            return self._real_import(name, space, local, wanted, level)
        caller = sys._getframe(1)  # noqa: SLF001 - the frame of the import statement
        if "__builtins__" not in caller.f_locals and caller.f_code.co_name != "<module>" and not self._in_class(caller):
            return self._real_import(name, space, local, wanted, level)  # in a function: it is about to be used
        if top in sys.stdlib_module_names:
            return self._real_import(name, space, local, wanted, level)
        guarded = caller.f_lineno in self._guarded.get(caller.f_code.co_filename, ())
        if top in self._deferred and _installed(top):
            return self._put_off(name, wanted)
        try:
            return self._real_import(name, space, local, wanted, level)
        except Exception:
            if guarded:
                raise
            return self._put_off(name, wanted)

    @staticmethod
    def _in_class(frame: types.FrameType) -> bool:
        return "__module__" in frame.f_locals and "__qualname__" in frame.f_locals

    def _put_off(self, name: str, wanted: Any) -> Deferred:
        called = name if wanted else name.partition(".")[0]

        def make() -> Any:
            return imported(name) if wanted else (imported(name), sys.modules[called])[1]

        return Deferred(called, make, self.loading)

    def thing(self, called: str) -> Any:
        """Return what a dotted name of the project stands for."""
        owner, _, name = called.rpartition(".")
        if not owner:
            return loaded(name)
        elsewhere = self.project.holds(owner) and self.project.path(owner) is None  # a class, or a module of another
        found = self.thing(owner) if elsewhere else loaded(owner)
        if isinstance(found, types.ModuleType) and not hasattr(found, name):
            raise NoSuchNameError(f"there is no {name!r} in {owner}")
        return getattr(found, name)


def loaded(name: str) -> types.ModuleType:
    """Import a module of the project. An attribute that it lacks is its own fault, not that of who asks for a name."""
    try:
        return importlib.import_module(name)
    except AttributeError as exc:
        raise ImportError(f"{name} cannot be loaded: {exc}", name=name) from exc


def imported(name: str) -> Any:
    """Import a module for use; the error names the package that is missing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        raise MissingPackage(f"No module named {exc.name!r}", name=(exc.name or name).partition(".")[0]) from exc
    except ImportError as exc:
        raise MissingPackage(str(exc), name=(exc.name or name).partition(".")[0]) from exc


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
