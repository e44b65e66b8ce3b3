"""What stands in for mmengine, on which the code of OpenCompass and AISBench builds: registries, dicts, a logger.

Runs inside the confined process; standard library only.
"""

from __future__ import annotations

import json
import logging
import os
import types

from kshot.sandbox._guest_deferred import Deferred, MissingPackage

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


class ConfigDict(dict):  # type: ignore[type-arg]  # its keys are whatever a config has
    """A dict whose items are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def copy(self) -> ConfigDict:
        """Return a copy of the same class."""
        return ConfigDict(self)

    def to_dict(self) -> dict[str, Any]:
        """Return it as a plain dict."""
        return dict(self)


def attributed(value: Any) -> Any:
    """Return a value whose dicts have their items as attributes."""
    if isinstance(value, dict):
        return ConfigDict({name: attributed(each) for name, each in value.items()})
    return type(value)(map(attributed, value)) if type(value) in (list, tuple) else value


class HomeRegistry:
    """Functions and classes by name; ``find`` looks for a name in the files of the project."""

    find: Callable[[HomeRegistry, str], Any]
    made: dict[str, HomeRegistry] = {}  # noqa: RUF012 - all registries share it

    def __init__(
        self,
        name: str,
        build_func: Any = None,
        parent: Any = None,
        scope: Any = None,
        locations: Iterable[str] = (),
    ) -> None:
        """Keep the name; the other arguments are mmengine's."""
        del build_func, parent, scope, locations
        self.name = name
        self.module_dict: dict[str, Any] = {}
        self.given: dict[str, dict[str, Any]] = {}
        """All that was registered under a name, by dotted name."""
        HomeRegistry.made[name] = self

    def register_module(self, name: Any = None, force: bool = False, module: Any = None) -> Any:  # noqa: FBT001, FBT002 - as mmengine has it
        """Keep something under its name, or return the decorator that does."""
        del force

        def keep(thing: Any) -> Any:
            names = [name] if isinstance(name, str) else name or [thing.__name__]
            self.module_dict.update(dict.fromkeys(names, thing))
            for each in names:
                self.given.setdefault(each, {})[f"{thing.__module__}.{thing.__qualname__}"] = thing
            return thing

        return keep if module is None else keep(module)

    def get(self, key: Any) -> Any:
        """Return what has this name; None where nothing has."""
        if not isinstance(key, str):
            return key
        if key not in self.module_dict:
            found = HomeRegistry.find(self, key)
            if found is None:
                return self.module_dict.get(key)
            self.module_dict[key] = found
        return self.module_dict[key]

    def build(self, cfg: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Make an object of ``dict(type=…, option=…)``."""
        options = dict(cfg)
        kind = self.get(options.pop("type"))
        if kind is None:
            raise KeyError(f"{cfg['type']} is not in the {self.name} registry")
        return kind(*args, **{**options, **kwargs})

    def __contains__(self, key: str) -> bool:
        """Whether something has this name."""
        return self.get(key) is not None


class Logger(logging.Logger):
    """A logger that says nothing: the project's messages are not the user's."""

    _named: dict[str, Logger] = {}  # noqa: RUF012 - one for each name

    @classmethod
    def get_instance(cls, name: str = "", **_: Any) -> Logger:
        """Return the logger of this name."""
        return cls._named.setdefault(name, cls(name, logging.CRITICAL))

    get_current_instance = get_instance

    @classmethod
    def check_instance_created(cls, name: str) -> bool:
        """Say that it is there, so that nobody sets it up."""
        del name
        return True


def _load(file: Any, file_format: str | None = None, **_: Any) -> Any:
    del file_format
    with open(file, encoding="utf-8") as opened:  # noqa: PTH123 - pathlib takes long to load
        return json.load(opened)


def _dump(value: Any, file: Any = None, **options: Any) -> Any:
    options.pop("file_format", None)
    if file is None:
        return json.dumps(value, **options)
    with open(file, "w", encoding="utf-8") as opened:  # noqa: PTH123 - as above
        return json.dump(value, opened, **options)


def _make_folder(folder: str, mode: int = 0o777) -> None:
    os.makedirs(folder, mode=mode, exist_ok=True)  # noqa: PTH103 - as above


def _lines(path: Any, **_: Any) -> list[str]:
    with open(path, encoding="utf-8") as opened:  # noqa: PTH123 - as above
        return opened.read().splitlines()


def _without(module: str, name: str) -> Any:
    """Return what stands for something of mmengine that has no equivalent here: using it is an error."""
    if name.startswith("__"):
        raise AttributeError(name)

    def missing() -> Any:
        raise MissingPackage(f"{module}.{name} has no equivalent here", name=module)

    return Deferred(f"{module}.{name}", missing, lambda: True)


def mmengine() -> dict[str, Callable[[], types.ModuleType]]:
    """Return what makes each module of mmengine that stands in for the real one, by name."""
    registry = {"Registry": HomeRegistry, "METRICS": HomeRegistry("mmengine_metrics")}
    config = {"ConfigDict": ConfigDict, "Config": ConfigDict, "read_base": lambda: None}
    files = {"load": _load, "dump": _dump, "list_from_file": _lines, "exists": os.path.exists}
    utils = {"mkdir_or_exist": _make_folder, "is_list_of": lambda seq, kind: all(isinstance(x, kind) for x in seq)}
    names: dict[str, dict[str, Any]] = {
        "mmengine": {**config, **files, **utils, "MMLogger": Logger, "Registry": HomeRegistry},
        "mmengine.registry": {**registry, "build_from_cfg": lambda cfg, registry, *_: registry.build(cfg)},
        "mmengine.registry.registry": registry,
        "mmengine.config": config,
        "mmengine.config.lazy": {"LazyAttr": type("LazyAttr", (), {}), "LazyObject": type("LazyObject", (), {})},
        "mmengine.logging": {"MMLogger": Logger, "print_log": lambda *_, **__: None},
        "mmengine.utils": utils,
        "mmengine.utils.path": utils,
        "mmengine.fileio": files,
        "mmengine.device": {"is_npu_available": lambda: False, "get_device": lambda: "cpu"},
        "mmengine.dist": {
            "master_only": lambda function: function,
            "get_rank": lambda: 0,
            "is_main_process": lambda: True,
        },
        "mmengine.analysis": {},
    }

    def maker(called: str, values: dict[str, Any]) -> Callable[[], types.ModuleType]:
        def make() -> types.ModuleType:
            module = types.ModuleType(called)
            vars(module).update(values)
            module.__getattr__ = lambda name: _without(called, name)  # type: ignore[method-assign]  # modules may have one
            return module

        return make

    return {called: maker(called, values) for called, values in names.items()}
