"""The modules of a guest: the project whose code it runs, what stands in for other packages, what is put off.

Runs inside the confined process; standard library only. A package of the project whose ``__init__`` only imports is not
run: a name is looked up in the module that gives it, and no other module is loaded. What the project's modules import
from heavy packages is imported when it is used (``_guest_deferred``); a missing package is an error when it is used.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import sys
import types
from importlib.abc import Loader, MetaPathFinder

from kshot.sandbox._guest_deferred import Deferred, MissingPackage
from kshot.sandbox._guest_project import GuestProject, SourceFile

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from importlib.machinery import ModuleSpec
    from typing import Any


class NoSuchNameError(AttributeError):
    """A name that the project does not have; everything else that goes wrong is another error."""


class AmbiguousNameError(AttributeError):
    """A bare name that several modules of the project have; the message lists the whole names."""


def check_unambiguous(names: Iterable[str]) -> None:
    """Raise AmbiguousNameError if these dotted names are not all the same."""
    different = sorted(set(names))
    if len(different) > 1:
        raise AmbiguousNameError(" or ".join(different))


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
        modules = [module for module in self.project.search(package, name) if module != package]
        check_unambiguous(f"{module}.{name}" for module in modules)
        if modules:
            return getattr(loaded(modules[0]), name)
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
        try:
            return getattr(found, name)
        except AttributeError as exc:
            if isinstance(exc, AmbiguousNameError) or not isinstance(found, types.ModuleType):
                raise
            raise NoSuchNameError(f"there is no {name!r} in {owner}") from exc


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
