"""What a config may make run for ever, in processes that can be killed: its file, what that defines, and clean-ups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kshot.cleanups.config_names import FIRST_NAMES, SLOW_IMPORTS, cleanup_function
from kshot.configs._codec import Codec
from kshot.configs.project import Project
from kshot.core.errors import DataError
from kshot.sandbox.calls import UNREADABLE, ConfinedFunction, KeptProcess, Refused, RequestProcess, TooSlow
from kshot.sandbox.process import CONFIG, LAYERS, ProcessOptions

# ---- clean-ups with options of a config, which may be regular expressions ----

_cleaned = partial(ConfinedFunction, "kshot.cleanups.config_names:cleaned", seconds=2)

CLEANED = _cleaned(work="cleans answers up", confined=False)
"""Calls kshot's own clean-ups, whose patterns may take longer than the age of the universe."""
OF_PACKAGES: Mapping[Callable[..., Any] | None, ConfinedFunction] = {
    function: _cleaned(work=f"calls {FIRST_NAMES[function]}", setup=partial(dict, package=package))
    for function, package in SLOW_IMPORTS.items()
}
"""Call those by which another package reads what a model wrote."""


class TookTooLong(DataError):  # noqa: N818 - it names what happened
    """A function that a config names, or the pattern that it gives one, did not finish on one text."""


class CleanupFailed(DataError):  # noqa: N818 - as above
    """A clean-up raised an error on one text."""


def cleaned_apart(name: str, text: Any, options: Mapping[str, Any], framework: str = "") -> Any:
    """Return what a clean-up makes of a text; ``framework``: whose clean-up of this name it is."""
    call = OF_PACKAGES.get(cleanup_function(name, framework), CLEANED)
    result = call(name, framework, text, dict(options))
    said = f"{name} with {_shown(options)}" if options else name
    if isinstance(result, Refused):
        raise CleanupFailed(f"{said} fails on {text!r:.80}: {result.shown or result.kind}")
    if isinstance(result, TooSlow):
        if result.limit:
            raise TookTooLong(f"{said} takes more than {result.limit} for the text {text!r:.40}")
        raise TookTooLong(f"{said} does not finish on the text {text!r:.40}: {result}")
    return result


def _shown(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r:.80}" for name, value in options.items())


# ---- the process of a config ----

LOAD_SECONDS = 20.0
CALL_SECONDS = 10.0
MEMORY_MB = CONFIG.limits.memory_mb
_WORKER = "kshot.configs._worker"


class ConfigProcess(KeptProcess):
    """The confined process of one config: started when it is needed, killed when it takes too long, then started anew.

    It can open no file but Python's own, and asks for those of its project; it sees none of the user's environment.
    """

    def __init__(
        self,
        path: Path,
        *,
        project: Project,
        codec: Codec | None = None,
        load_seconds: float = LOAD_SECONDS,
        call_seconds: float = CALL_SECONDS,
        memory_mb: int = MEMORY_MB,
        layers: Sequence[str] = LAYERS,
    ) -> None:
        """``project`` gives it files; ``codec`` makes Python values of answers."""
        super().__init__()
        self.path, self._codec = path, codec or Codec()
        self._job = {"path": str(path), "search_folders": [str(folder) for folder in project.search_folders]}
        self._project, self._memory_mb = project, memory_mb
        limits = replace(CONFIG.limits, memory_mb=memory_mb)
        self._options = ProcessOptions(layers=layers, limits=limits, cwd=Path.cwd())
        self._load_seconds, self._call_seconds = load_seconds, call_seconds

    def load(self) -> Any:
        """Run the file, and return its variables."""
        with self._lock:
            self.close()
            self._process, variables = self._loaded()
            return self._decoded(variables)

    def call(self, number: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function of the config with plain values; ``number`` is the one under which it was sent."""
        given = {"args": self._encoded(list(args)), "kwargs": self._encoded(dict(kwargs))}
        return self._request({"action": "call", "number": number, **given})

    def method(self, number: int, options: Mapping[str, Any], method: str, kwargs: Mapping[str, Any]) -> Any:
        """Make an object of a class of the config and call one of its methods."""
        given = {"options": self._encoded(dict(options)), "kwargs": self._encoded(dict(kwargs))}
        return self._request({"action": "method", "number": number, "method": method, **given})

    def _request(self, request: Mapping[str, Any]) -> Any:
        answer = self.ask(request, self._call_seconds)
        if isinstance(answer, (TooSlow, Refused)):
            raise self._error(answer)
        return self._decoded(answer)

    def _started(self) -> RequestProcess:
        return self._loaded()[0]

    def _loaded(self) -> tuple[RequestProcess, Any]:
        """Start a process and run the file in it; return its variables too."""
        process = RequestProcess(CONFIG, _WORKER, self._job, serve=self._project.serve, **self._options)
        answer = process.ask({"action": "load"}, self._load_seconds)
        if isinstance(answer, (TooSlow, Refused)):
            process.end()
            raise self._error(answer)
        return process, answer

    def _encoded(self, value: Any) -> Any:
        try:
            return self._codec.encode(value)
        except (RecursionError, ValueError) as exc:
            raise DataError(f"what it would be given is too much: {exc}", where=str(self.path)) from exc

    def _decoded(self, plain: Any) -> Any:
        try:
            return self._codec.decode(plain)
        except (RecursionError, TypeError, ValueError, LookupError) as exc:
            raise DataError(UNREADABLE, where=str(self.path)) from exc

    def _error(self, result: TooSlow | Refused) -> DataError:
        if isinstance(result, TooSlow):
            error = TookTooLong if result.kind == "TooSlow" else DataError
            return error(result.why, where=str(self.path))
        where = f"{result.file or self.path}{f':{result.line}' if result.line else ''}"
        message, hint = result.message, ""
        match result.kind:
            case "SyntaxError":
                return DataError(f"this is not Python: {message}", where=where)
            case "NoConfig":
                given = self._project.given
                hint = "Name the folder that holds its package: --home DIR." if given is None else f"Nor has {given}."
                return DataError(message, where=where, hint=hint)
            case "ConfigFault" | "NoEquivalent":
                return DataError(message, where=where)
            case "NotRead":
                hint = (
                    "This system cannot confine a process, so that no Python of a config is run: see docs/configs.md."
                )
                return DataError(message, where=where, hint=hint)
            case "MemoryError":
                message = message or f"it wants more memory than the {self._memory_mb} MB that a config may have"
            case "PermissionError":
                another = "" if self._project.given else " (--home DIR names another)"
                hint = f"A config reads files of its project{another}, and can neither write nor use the network"
                hint += ": see docs/configs.md."
        return DataError(f"the config fails: {result.kind}: {message}".rstrip(": "), where=where, hint=hint)
