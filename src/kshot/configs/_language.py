"""The language of config files: imports, ``read_base``, calls of what a file defines.

Runs inside the confined process; standard library only. A config's imports of ``ais_bench``, ``opencompass``,
``mmengine`` and ``kshot`` give stand-ins. The standard library is itself. Other config files are found beside the file,
or below the nearest folder that has them. Their text comes from the parent, which gives none from outside the project.
"""

from __future__ import annotations

import builtins
import importlib.util
import json
import os
import sys
import types
from collections.abc import Sequence
from typing import Any

from kshot.configs._codec import Codec
from kshot.configs._stand_ins import (
    DEPENDENCIES,
    FRAMEWORKS,
    NAMED,
    AttributeDict,
    ConfigFault,
    NoConfig,
    ReadBase,
    StandIn,
    copied,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kshot.configs._files import RequestedFiles

_MAX_MESSAGE_LETTERS = 2000


class Interpreter:
    """Runs config files and calls what they define."""

    def __init__(self, path: str, files: RequestedFiles, search_folders: Sequence[str], lacking: str = "") -> None:
        """Prepare for one config; absolute ``read_base`` imports are looked for in ``search_folders``, in order.

        ``lacking``: what the system lacks to confine a process.
        """
        self._lacking = lacking
        self._path, self._source, self._search_folders = path, files, search_folders
        self._texts: dict[str, str] = {}
        self._codec, self._dumps = Codec(StandIn, StandIn.describe), json.dumps
        self._actions = {"load": self._load, "call": self._call, "method": self._method}
        self._files: dict[str, dict[str, Any]] = {}
        self._running: list[str] = []
        self.read_base_depth = 0
        self.frameworks: set[str] = set()
        self.registered: dict[str, Any] = {}
        self._registered_in: dict[tuple[str, str], Any] = {}
        self._real_import = builtins.__import__
        self._place: tuple[BaseException, str, int] | None = None

    # ---- requests ----

    def answer(self, request: dict[str, Any]) -> str:
        """Load the file, or call something of it. The answer is a line of JSON; an exception is part of it."""
        try:
            result = self._actions[request["action"]](request)
            return self._dumps({"id": request["id"], "result": self._codec.encode(result)})
        except BaseException as error:  # noqa: BLE001 - whatever the config raises is its own fault
            try:
                return self._dumps({"id": request["id"], "fault": self._fault(error)})
            except BaseException:  # noqa: BLE001 - its __str__ may raise, too
                fault = {"kind": type(error).__name__, "message": "", "file": self._path, "line": 0}
                return self._dumps({"id": request["id"], "fault": fault})

    def _load(self, _: dict[str, Any]) -> dict[str, Any]:
        self.read_base_depth = 0
        variables = {
            name: value
            for name, value in self.run(self._path).items()
            if not name.startswith("__")
            and not isinstance(value, (types.ModuleType, types.FunctionType, type, StandIn, ReadBase))
        }
        return {
            "variables": variables,
            "registered": self.registered,
            "frameworks": sorted(self.frameworks),
            "files": list(self._files),
            "lacking": self._lacking,
        }

    def _call(self, request: dict[str, Any]) -> Any:
        function = self._codec.owned(request["number"])
        return function(*self._codec.decode(request["args"]), **self._codec.decode(request["kwargs"]))

    def _method(self, request: dict[str, Any]) -> Any:
        """Make an object of a class of the config, and call a method with the arguments that it has parameters for."""
        import inspect  # it takes long to load, and most configs have no method to call

        cls = self._codec.owned(request["number"])
        method = getattr(cls(**self._codec.decode(request["options"])), request["method"])
        given = self._codec.decode(request["kwargs"])
        parameters = inspect.signature(method).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            given = {name: value for name, value in given.items() if name in parameters}
        return method(**given)

    def _fault(self, error: BaseException) -> dict[str, Any]:
        known = {*self._files, *self._running, self._path}
        file, line, entry = self._path, 0, error.__traceback__
        while entry is not None:  # the innermost frame in a config file says where
            if entry.tb_frame.f_code.co_filename in known:
                file, line = entry.tb_frame.f_code.co_filename, entry.tb_lineno
            entry = entry.tb_next
        if self._place is not None and self._place[0] is error:
            _, file, line = self._place
        if isinstance(error, SyntaxError) and error.filename in known:
            file, line = str(error.filename), error.lineno or 0
        message = str(error.msg if isinstance(error, SyntaxError) else error)
        if isinstance(error, OSError) and error.errno is None:
            message = " ".join(map(str, error.args))  # a file that Python 3.13's rmtree adds would hide what it says
        self._running.clear()
        return {
            "kind": type(error).__name__,
            "message": message[:_MAX_MESSAGE_LETTERS],
            "file": file,
            "line": line,
        }

    def located(self, error: BaseException, file: str, line: int) -> None:
        """Keep where an error arose, unless that is known already."""
        if self._place is None or self._place[0] is not error:
            self._place = error, file, line

    # ---- files ----

    def run(self, path: str) -> dict[str, Any]:
        """Run a file, once, and return its namespace."""
        if path in self._files:
            return self._files[path]
        if path in self._running:
            raise ConfigFault(f"config files import each other in a circle: {' → '.join([*self._running, path])}")
        if path not in self._texts and self._find(path) is None:
            raise ConfigFault(f"there is no config file {path}")
        self._running.append(path)
        text = self._texts.pop(path).encode("latin-1").decode("utf-8-sig")
        depth, self.read_base_depth = self.read_base_depth, 0
        module = types.ModuleType(f"config_{len(self._files)}_{len(self._running)}")
        sys.modules[module.__name__] = module  # dataclasses and typing look the modules of classes up
        space = vars(module)
        space |= {"__file__": path, "__builtins__": {**vars(builtins), "__import__": self._import}}
        self.execute(text, path, space)
        self.read_base_depth = depth
        self._running.pop()
        self._files[path] = space
        return space

    def execute(self, text: str, path: str, space: dict[str, Any]) -> None:
        """Run the text of a file in its namespace."""
        exec(compile(text, path, "exec", dont_inherit=True), space)  # noqa: S102 - this process is confined

    def _import(self, name: str, space: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> Any:
        caller = sys._getframe(1)  # noqa: SLF001 - the frame of the import statement
        file = str((space or {}).get("__file__", self._path)) if level else caller.f_code.co_filename
        found = self.imported(name, wanted or (), level, file, caller.f_lineno)
        return self._real_import(name, space, local, wanted, level) if found is None else found

    def imported(self, name: str, wanted: tuple[str, ...], level: int, file: str, line: int) -> Any:
        """Return what an import statement of a file gives; None for the standard library."""
        top = name.partition(".")[0]
        if level:
            return self._relative(name, file, wanted, level)
        if top in FRAMEWORKS:
            self.frameworks.add(top)
        if self.read_base_depth or (top in FRAMEWORKS and "configs" in name.split(".")):
            path = self._absolute(name)
            if path is not None:
                return self._as_module(path, wanted)
            if self.read_base_depth and top != "mmengine":
                place = f"{name.replace('.', '/')}.py"
                raise NoConfig(f"there is no config {name!r}: none of the folders above the file has {place}")
        if top in sys.stdlib_module_names:
            return None
        if top in NAMED or top in DEPENDENCIES or importlib.util.find_spec(top) is not None:
            return self.named(name if wanted else top, f"{file}:{line}")
        beside = os.path.join(os.path.dirname(file), *name.split(".")) + ".py"  # noqa: PTH118, PTH120 - pathlib takes long to load
        if self._find(beside) is not None:
            return self._as_module(beside, wanted)
        raise ModuleNotFoundError(f"there is no package {top!r}: it is not installed, and no config file has that name")

    def named(self, called: str, at: str) -> Any:
        """Return what a name of another package stands for."""
        if called in {"mmengine.config.read_base", "mmengine.read_base"}:
            return ReadBase(self)
        if called.rpartition(".")[2] == "AISBenchValueError":
            return ValueError
        if called in {"mmengine.config.ConfigDict", "mmengine.ConfigDict"}:
            return AttributeDict
        return StandIn(called, at, self)

    def _relative(self, name: str, file: str, wanted: tuple[str, ...], level: int) -> Any:
        folder = file
        for _ in range(level):
            folder = os.path.dirname(folder)  # noqa: PTH120 - pathlib takes long to load
        path = os.path.join(folder, *(name.split(".") if name else []))  # noqa: PTH118 - as above
        found = self._find(f"{path}.py", os.path.join(path, "__init__.py"))  # noqa: PTH118 - as above
        if found is not None:
            return self._as_module(found, wanted)
        inside = [self._find(os.path.join(path, f"{each}.py")) for each in wanted]  # noqa: PTH118 - as above
        if not inside or None in inside:
            raise ConfigFault(f"there is no config file {path}.py")
        module = types.ModuleType("configs")
        for each, place in zip(wanted, inside, strict=True):
            setattr(module, each, self._as_module(str(place), ("*",)))
        return module

    def _absolute(self, name: str) -> str | None:
        places = [os.path.join(folder, *name.split(".")) for folder in self._search_folders]  # noqa: PTH118 - as above
        files = [file for place in places for file in (f"{place}.py", os.path.join(place, "__init__.py"))]  # noqa: PTH118 - as above
        try:
            return self._find(*files)
        except PermissionError:  # all of them lie outside the project
            return None

    def _find(self, *paths: str) -> str | None:
        """Return the first of these files that there is; a package counts if its ``__init__.py`` is not empty."""
        known = next((path for path in paths if path in self._files or path in self._running), None)
        if known == paths[0]:
            return known
        found = self._source.find(paths)
        if found is None:
            return None
        self._texts[found[0]] = found[1]
        return found[0]

    def _as_module(self, path: str, wanted: Any) -> types.ModuleType:
        """Return the names of a file as a module, with copies of their values: changing one changes no other file."""
        space = self.run(path)
        names = [name for name in space if not name.startswith("__")]
        module = types.ModuleType(os.path.basename(path).removesuffix(".py"))  # noqa: PTH119 - pathlib takes long to load
        for name in names if not wanted or "*" in wanted else [name for name in names if name in wanted]:
            setattr(module, name, copied(space[name]))
        module.__all__ = names  # type: ignore[attr-defined]  # any module may have it
        module.__file__ = path
        return module

    def register(self, registry: str, *args: Any, **kwargs: Any) -> Any:
        """``@REGISTRY.register_module('name')``: keep what is registered, so that it can be named by text."""
        names = kwargs.get("name") or next((arg for arg in args if isinstance(arg, (str, list, tuple))), None)
        replaces = bool(kwargs.get("force", next((arg for arg in args if isinstance(arg, bool)), False)))

        def keep(thing: Any) -> Any:
            for name in [names] if isinstance(names, str) else names or [thing.__name__]:
                if not replaces and self._registered_in.get((registry, name), thing) is not thing:
                    raise ConfigFault(f"{name!r} is registered twice in {registry}. Rename one, or write force=True")
                self._registered_in[registry, name] = self.registered[name] = thing
            return thing

        given = kwargs.get("module") or next((arg for arg in args if callable(arg)), None)
        return keep(given) if given is not None else keep
