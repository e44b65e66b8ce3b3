"""math-verify in a confined process that can be killed: formulas that a model wrote may take forever to compute."""

from __future__ import annotations

from kshot.core.records import AskFailed, Failed
from kshot.sandbox.kept_process import OUT_OF_MEMORY, TOO_SLOW, KeptProcess, started
from kshot.sandbox.profiles import CONFIG
from kshot.sandbox.request_process import NoAnswer, RequestFailed, RequestProcess

SECONDS = 10
"""How long one comparison may take, in seconds of processor time."""
_WORKER = "kshot.configs._math_worker"


class MathProcess(KeptProcess):
    """A process that compares formulas."""

    def __init__(self) -> None:
        """Start nothing yet."""
        super().__init__(lambda: _started())  # noqa: PLW0108 - tests replace it

    def same(self, prediction: str, references: tuple[str, ...]) -> bool:
        """Whether the boxed formula of a reply has the value of the first reference that can be read.

        A reply for which the comparison does not end, or raises an exception, is a failed sample: nobody knows.
        """
        try:
            return bool(self.ask({"prediction": prediction, "references": list(references)}))
        except NoAnswer as exc:
            why = str(exc)
        except RequestFailed as exc:
            limits = {TOO_SLOW: f"{SECONDS:g} s", OUT_OF_MEMORY: f"{CONFIG.limits.memory_mb} MB"}
            why = f"it takes more than {limits[exc.kind]}" if exc.kind in limits else f"{exc.kind}: {exc.message}"
        message = f"the formula {prediction[-80:]!r} cannot be compared with {references[0]!r:.80}: {why}"
        raise AskFailed(Failed("formula", message))


def _started() -> RequestProcess:
    return started(CONFIG, _WORKER, {"seconds": SECONDS}, work="compares formulas")


MATH_PROCESS = MathProcess()
