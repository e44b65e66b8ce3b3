"""Clean-ups with options of a config, in a process that can be killed: the options may be regular expressions."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from kshot.core.errors import DataError
from kshot.sandbox.profiles import CONFIG
from kshot.sandbox.request_process import NoAnswer, RequestFailed, RequestProcess

SECONDS = 2.0
"""How long a clean-up may work on one text, in seconds of processor time."""
_WALL_SECONDS = 60.0
"""How long it may take on a machine that is busy with other things."""
_WORKER = "kshot.configs._cleanup_worker"
_START_HINT = "Free memory or processes of this machine, and run the command again: what is done is kept."


class TookTooLong(DataError):  # noqa: N818 - it names what happened
    """A function that a config names, or the pattern that it gives one, did not finish on one text."""


class CleanupFailed(DataError):  # noqa: N818 - as above
    """A clean-up raised an error on one text."""


class CleanupProcess:
    """A process that calls clean-ups by name; started when it is first needed, and again when it was killed."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._lock = threading.Lock()
        self._process: RequestProcess | None = None

    def call(self, name: str, text: Any, options: Mapping[str, Any], framework: str = "") -> Any:
        """Return what a clean-up makes of a text; ``framework``: whose clean-up of this name it is."""
        said = f"{name} with {_shown(options)}" if options else name
        with self._lock:
            process = self._process = self._process or _started()
            try:
                return process.ask(
                    {"name": name, "framework": framework, "text": text, "options": dict(options)}, _WALL_SECONDS
                )
            except NoAnswer as exc:  # it had started: this text was too much for it
                self._end()
                raise TookTooLong(f"{said} does not finish on the text {text!r:.40}: {exc}") from None
            except RequestFailed as exc:
                limit = {"TooSlow": f"{SECONDS:g} s", "MemoryError": f"{CONFIG.limits.memory_mb} MB"}.get(exc.kind)
                if limit is None:
                    raise CleanupFailed(f"{said} fails on {text!r:.80}: {exc.message or exc.kind}") from None
                self._end()
                raise TookTooLong(f"{said} takes more than {limit} for the text {text!r:.40}") from None

    def close(self) -> None:
        """End the process; the next call starts another."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()


def _started() -> RequestProcess:
    """Start the process. That it cannot start is no fault of any text, and an error of the run."""
    process = None
    try:
        process = RequestProcess(CONFIG, _WORKER, {"seconds": SECONDS}, serve=lambda _: {"refused": "files"})
        process.ask({"name": None}, _WALL_SECONDS)
    except (OSError, NoAnswer) as exc:
        if process is not None:
            process.end()
        raise DataError(f"the process that cleans answers up cannot start: {exc}", hint=_START_HINT) from exc
    return process


def _shown(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r:.80}" for name, value in options.items())


CLEANUP_PROCESS = CleanupProcess()
