"""Run a config file in a confined process, and keep the process to call what the file defines."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kshot.configs._codec import Codec
from kshot.configs.cleanup_process import TookTooLong
from kshot.configs.project import Project
from kshot.core.errors import DataError
from kshot.sandbox.profiles import CONFIG, LAYERS
from kshot.sandbox.request_process import UNREADABLE, NoAnswer, RequestFailed, RequestProcess, TooSlow

LOAD_SECONDS = 20.0
CALL_SECONDS = 10.0
MEMORY_MB = CONFIG.limits.memory_mb
_WORKER = "kshot.configs._worker"


class ConfigProcess:
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
        self.path, self._codec = path, codec or Codec()
        self._job = {"path": str(path), "search_folders": [str(folder) for folder in project.search_folders]}
        self._project, self._layers = project, layers
        self._limits = replace(CONFIG.limits, memory_mb=memory_mb)
        self._load_seconds, self._call_seconds = load_seconds, call_seconds
        self._cwd = Path.cwd()
        self._lock = threading.RLock()
        self._process: RequestProcess | None = None

    def load(self) -> Any:
        """Run the file, and return its variables."""
        with self._lock:
            self.close()
            return self._decoded(self._load())

    def call(self, number: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function of the config with plain values; ``number`` is the one under which it was sent."""
        given = {"args": self._encoded(list(args)), "kwargs": self._encoded(dict(kwargs))}
        return self._request({"action": "call", "number": number, **given})

    def method(self, number: int, options: Mapping[str, Any], method: str, kwargs: Mapping[str, Any]) -> Any:
        """Make an object of a class of the config and call one of its methods."""
        given = {"options": self._encoded(dict(options)), "kwargs": self._encoded(dict(kwargs))}
        return self._request({"action": "method", "number": number, "method": method, **given})

    def close(self) -> None:
        """End the process; the next call starts another."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                process.end()

    def _request(self, request: Mapping[str, Any]) -> Any:
        with self._lock:
            if self._process is None or not self._process.alive:
                self.close()
                self._load()
            return self._decoded(self._ask(request, self._call_seconds))

    def _load(self) -> Any:
        return self._ask({"action": "load"}, self._load_seconds)

    def _ask(self, request: Mapping[str, Any], seconds: float) -> Any:
        if self._process is None:
            self._process = RequestProcess(
                CONFIG,
                _WORKER,
                self._job,
                layers=self._layers,
                limits=self._limits,
                cwd=self._cwd,
                serve=self._project.serve,
            )
        try:
            return self._process.ask(request, seconds)
        except TooSlow as exc:
            self.close()
            raise TookTooLong(str(exc), where=str(self.path)) from None
        except NoAnswer as exc:
            self.close()
            raise DataError(str(exc), where=str(self.path)) from None
        except RequestFailed as exc:
            raise self._fault(exc) from None

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

    def _fault(self, exc: RequestFailed) -> DataError:
        where = f"{exc.file or self.path}{f':{exc.line}' if exc.line else ''}"
        message, hint = exc.message, ""
        match exc.kind:
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
                message = message or f"it wants more memory than the {self._limits.memory_mb} MB that a config may have"
            case "PermissionError":
                another = "" if self._project.given else " (--home DIR names another)"
                hint = f"A config reads files of its project{another}, and can neither write nor use the network"
                hint += ": see docs/configs.md."
        return DataError(f"the config fails: {exc.kind}: {message}".rstrip(": "), where=where, hint=hint)
