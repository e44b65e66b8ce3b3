"""Clean-ups with options of a config, in a process that can be killed: the options may be regular expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshot.core.errors import DataError
from kshot.sandbox.kept_process import NOT_CONFINED, OUT_OF_MEMORY, TOO_SLOW, KeptProcess, started
from kshot.sandbox.profiles import CONFIG
from kshot.sandbox.request_process import NoAnswer, RequestFailed, RequestProcess

SECONDS = 2.0
"""How long a clean-up may work on one text, in seconds of processor time."""
_WORKER = "kshot.configs._cleanup_worker"


class TookTooLong(DataError):  # noqa: N818 - it names what happened
    """A function that a config names, or the pattern that it gives one, did not finish on one text."""


class CleanupFailed(DataError):  # noqa: N818 - as above
    """A clean-up raised an error on one text."""


class CleanupProcess(KeptProcess):
    """A process that calls clean-ups by name."""

    def __init__(self) -> None:
        """Start nothing yet."""
        super().__init__(lambda: _started())  # noqa: PLW0108 - tests replace it

    def call(self, name: str, text: Any, options: Mapping[str, Any], framework: str = "") -> Any:
        """Return what a clean-up makes of a text; ``framework``: whose clean-up of this name it is."""
        said = f"{name} with {_shown(options)}" if options else name
        try:
            return self.ask({"name": name, "framework": framework, "text": text, "options": dict(options)})
        except NoAnswer as exc:  # it had started: this text was too much for it
            raise TookTooLong(f"{said} does not finish on the text {text!r:.40}: {exc}") from None
        except RequestFailed as exc:
            if exc.kind == NOT_CONFINED:
                raise DataError(
                    f"this system cannot confine the process that calls {name}: it lacks {exc.message}",
                    hint="Use Linux 6.2 or later with seccomp and Landlock.",
                ) from None
            limit = {TOO_SLOW: f"{SECONDS:g} s", OUT_OF_MEMORY: f"{CONFIG.limits.memory_mb} MB"}.get(exc.kind)
            if limit is None:
                raise CleanupFailed(f"{said} fails on {text!r:.80}: {exc.message or exc.kind}") from None
            raise TookTooLong(f"{said} takes more than {limit} for the text {text!r:.40}") from None


def _started() -> RequestProcess:
    return started(CONFIG, _WORKER, {"seconds": SECONDS}, work="cleans answers up")


def _shown(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r:.80}" for name, value in options.items())


CLEANUP_PROCESS = CleanupProcess()
