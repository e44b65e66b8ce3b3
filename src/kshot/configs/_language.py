"""The language of config files, run inside the confined process: imports, ``read_base``, calls of what a file defines.

A config's imports of ``ais_bench``, ``opencompass``, ``mmengine`` and ``kshot`` give names that stand for something;
the standard library is itself; other config files are found beside the file, or below the nearest folder with them.
"""

from __future__ import annotations

import builtins
import importlib.util
import inspect
import json
import os
import sys
import traceback
import types
from typing import Any

from kshot.configs._codec import Codec
from kshot.configs._stand_ins import DEPENDED, HOMES, NAMED, ConfigFault, Name, ReadBase, Settable, copied


class Interpreter:
    """Runs config files and calls what they define."""

    def __init__(self, job: dict[str, Any]) -> None:
        """Prepare for one config: ``roots`` are where absolute ``read_base`` imports are looked for, nearest first."""
        self._path, self._above = job["path"], job["above"]
        self._codec, self._dumps = Codec(Name, Name.describe), json.dumps
        self._files: dict[str, dict[str, Any]] = {}
        self._open: list[str] = []
        self.reading = 0
        self.homes: set[str] = set()
        self.registered: dict[str, Any] = {}
        self._real_import = builtins.__import__

    # ---- requests ----

    def answer(self, request: dict[str, Any]) -> str:
        """Load the file, or call something of it; whatever goes wrong is told. The answer is a line of JSON."""
        try:
            done = getattr(self, f"_do_{request['do']}")(request)
            return self._dumps({"id": request["id"], "done": self._codec.encode(done)})
        except BaseException as error:  # noqa: BLE001 - whatever the config raises is its own fault
            try:
                return self._dumps({"id": request["id"], "fault": self._fault(error)})
            except BaseException:  # noqa: BLE001 - its __str__ may raise, too
                fault = {"kind": type(error).__name__, "message": "", "file": self._path, "line": 0}
                return self._dumps({"id": request["id"], "fault": fault})

    def _do_load(self, _: dict[str, Any]) -> dict[str, Any]:
        self.reading = 0
        space = self.run(self._path)
        kept = {
            name: value
            for name, value in space.items()
            if not name.startswith("__")
            and not isinstance(value, (types.ModuleType, types.FunctionType, type, Name, ReadBase))
        }
        return {
            "variables": kept,
            "registered": self.registered,
            "homes": sorted(self.homes),
            "files": list(self._files),
        }

    def _do_call(self, request: dict[str, Any]) -> Any:
        own = self._codec.owned(request["own"])
        return own(*self._codec.decode(request["args"]), **self._codec.decode(request["kwargs"]))

    def _do_method(self, request: dict[str, Any]) -> Any:
        """Make an object of a class of the config, and call one of its methods with what it has parameters for."""
        own = self._codec.owned(request["own"])
        method = getattr(own(**self._codec.decode(request["made"])), request["method"])
        given = self._codec.decode(request["kwargs"])
        wanted = inspect.signature(method).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in wanted.values()):
            given = {name: value for name, value in given.items() if name in wanted}
        return method(**given)

    def _fault(self, error: BaseException) -> dict[str, Any]:
        known = {*self._files, *self._open, self._path}
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in known]
        file, line = (frames[-1].filename, frames[-1].lineno) if frames else (self._path, 0)
        if isinstance(error, SyntaxError) and error.filename in known:
            file, line = str(error.filename), error.lineno
        message = str(error.msg if isinstance(error, SyntaxError) else error)
        self._open.clear()
        return {"kind": type(error).__name__, "message": message[:2000], "file": file, "line": line or 0}

    # ---- files ----

    def run(self, path: str) -> dict[str, Any]:
        """Run a file once; its names."""
        if path in self._files:
            return self._files[path]
        if path in self._open:
            raise ConfigFault(f"config files import each other in a circle: {' → '.join([*self._open, path])}")
        self._open.append(path)
        with open(path, encoding="utf-8-sig") as file:  # noqa: PTH123 - quick to start
            text = file.read()
        before, self.reading = self.reading, 0
        module = types.ModuleType(f"config_{len(self._files)}_{len(self._open)}")
        sys.modules[module.__name__] = module  # dataclasses and typing look classes' modules up
        space = vars(module)
        space |= {"__file__": path, "__builtins__": {**vars(builtins), "__import__": self._import}}
        exec(compile(text, path, "exec", dont_inherit=True), space)  # noqa: S102 - confined by now
        self.reading = before
        self._open.pop()
        self._files[path] = space
        return space

    def _import(self, name: str, space: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> Any:
        caller = sys._getframe(1)  # noqa: SLF001 - who imports
        at = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        top = name.partition(".")[0]
        if level:
            return self._relative(name, (space or {}).get("__file__", self._path), wanted or (), level)
        if top in HOMES:
            self.homes.add(top)
        if self.reading or (top in HOMES and "configs" in name.split(".")):
            path = self._absolute(name)
            if path is not None:
                return self._lent(path, wanted)
            if self.reading and top != "mmengine":
                raise ConfigFault(
                    f"there is no config {name!r}: none of the folders above the file has "
                    f"{name.replace('.', '/')}.py. Give the folder that holds {top!r} as config root"
                )
        if top in sys.stdlib_module_names:
            return self._real_import(name, space, local, wanted, level)
        if top in NAMED or top in DEPENDED or importlib.util.find_spec(top) is not None:
            return self.named(name if wanted else top, at)
        beside = os.path.join(os.path.dirname(caller.f_code.co_filename), *name.split(".")) + ".py"  # noqa: PTH118, PTH120
        if os.path.isfile(beside):  # noqa: PTH113
            return self._lent(beside, wanted)
        raise ModuleNotFoundError(f"there is no package {top!r}: it is not installed, and no config file has that name")

    def named(self, called: str, at: str) -> Any:
        """Give what a name of another package stands for."""
        if called in {"mmengine.config.read_base", "mmengine.read_base"}:
            return ReadBase(self)
        if called.endswith(".AISBenchValueError"):
            return ValueError
        if called in {"mmengine.config.ConfigDict", "mmengine.ConfigDict"}:
            return Settable
        return Name(called, at, self)

    def _relative(self, name: str, file: str, wanted: tuple[str, ...], level: int) -> Any:
        folder = file
        for _ in range(level):
            folder = os.path.dirname(folder)  # noqa: PTH120
        path = os.path.join(folder, *(name.split(".") if name else []))  # noqa: PTH118
        found = _file(path)
        if found is not None:
            return self._lent(found, wanted)
        if wanted and all(os.path.isfile(os.path.join(path, f"{each}.py")) for each in wanted):  # noqa: PTH113, PTH118
            held = types.ModuleType("configs")
            for each in wanted:
                setattr(held, each, self._lent(os.path.join(path, f"{each}.py"), ("*",)))  # noqa: PTH118
            return held
        raise ConfigFault(f"there is no config file {path}.py")

    def _absolute(self, name: str) -> str | None:
        for root in self._above:
            found = _file(os.path.join(root, *name.split(".")))  # noqa: PTH118
            if found is not None:
                return found
        return None

    def _lent(self, path: str, wanted: Any) -> types.ModuleType:
        """A copy of a file's names: whoever changes them changes nobody else's."""
        space = self.run(path)
        names = [name for name in space if not name.startswith("__")]
        held = types.ModuleType(os.path.basename(path).removesuffix(".py"))  # noqa: PTH119
        for name in names if not wanted or "*" in wanted else [name for name in names if name in wanted]:
            setattr(held, name, copied(space[name]))
        held.__all__ = names  # type: ignore[attr-defined]
        held.__file__ = path
        return held

    def registering(self, *args: Any, **kwargs: Any) -> Any:
        """``@REGISTRY.register_module('name')``: keep what is registered, so that it can be named by text."""
        names = kwargs.get("name") or next((arg for arg in args if isinstance(arg, (str, list, tuple))), None)

        def keep(thing: Any) -> Any:
            for name in [names] if isinstance(names, str) else names or [thing.__name__]:
                self.registered[name] = thing
            return thing

        given = kwargs.get("module") or next((arg for arg in args if callable(arg)), None)
        return keep(given) if given is not None else keep


def _file(path: str) -> str | None:
    """Give the file of a module, or of a package that says something itself."""
    inside = os.path.join(path, "__init__.py")  # noqa: PTH118
    if os.path.isfile(f"{path}.py"):  # noqa: PTH113
        return f"{path}.py"
    return inside if os.path.isfile(inside) and os.path.getsize(inside) else None  # noqa: PTH113, PTH202
