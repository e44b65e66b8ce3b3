"""math-verify in a confined process that can be killed: formulas that a model wrote may take forever to compute."""

from __future__ import annotations

import threading

from kshot.core.errors import DataError
from kshot.sandbox.profiles import CONFIG
from kshot.sandbox.request_process import NoAnswer, RequestFailed, RequestProcess

SECONDS = 10
"""How long one comparison may take, in seconds of processor time; one that takes longer is not right."""
_WALL_SECONDS = 60.0
"""How long it may take on a machine that is busy with other things."""
_WORKER = "kshot.configs._math_worker"


class MathProcess:
    """A process that compares formulas; started when it is first needed, and again when it was killed."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._lock = threading.Lock()
        self._process: RequestProcess | None = None

    def same(self, prediction: str, references: tuple[str, ...]) -> bool:
        """Whether the boxed formula of a reply has the value of the first reference that can be read."""
        with self._lock:
            process = self._process = self._process or _started()
            try:
                asked = {"prediction": prediction, "references": list(references)}
                return bool(process.ask(asked, _WALL_SECONDS))
            except NoAnswer:  # it took too long, or too much memory
                self._end()
                return False
            except RequestFailed:
                return False

    def close(self) -> None:
        """End the process; the next call starts another."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()


def _started() -> RequestProcess:
    process = None
    try:
        process = RequestProcess(CONFIG, _WORKER, {"seconds": SECONDS}, serve=lambda _: {"refused": "files"})
        process.ask({"prediction": None}, _WALL_SECONDS)
    except (OSError, NoAnswer) as exc:
        if process is not None:
            process.end()
        raise DataError(
            f"the process that compares formulas cannot start: {exc}",
            hint="Free memory or processes of this machine, and run the command again: what is done is kept.",
        ) from exc
    return process


MATH_PROCESS = MathProcess()
