"""Run a config file in a confined process, and keep the process to call what the file defines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kshot.configs._codec import Codec
from kshot.configs.cleanup_process import TookTooLong
from kshot.configs.project import Project
from kshot.core.errors import DataError
from kshot.sandbox.calls import UNREADABLE, KeptProcess, Refused, RequestProcess, TooSlow
from kshot.sandbox.process import ProcessOptions
from kshot.sandbox.profiles import CONFIG, LAYERS

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
