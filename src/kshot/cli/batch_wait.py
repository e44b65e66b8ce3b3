"""``--batch-wait SECONDS``: a command that collects its batches itself, instead of being called again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kshot.cli.streams import say
from kshot.core.errors import UsageError
from kshot.core.postponed import BatchesOpen

if TYPE_CHECKING:
    from collections.abc import Callable

    from kshot.result import Result


def when_collected(evaluate: Callable[[], Result], seconds: float | None) -> Result:
    """Evaluate again after so many seconds, as long as requests wait in batches; None: stop at the first time."""
    if seconds is not None and not 0 < seconds < float("inf"):
        raise UsageError(f"--batch-wait is {seconds}; it must be a number of seconds above 0")
    while True:
        try:
            return evaluate()
        except BatchesOpen as exc:
            if seconds is None:
                raise
            say(f"{exc.what}; the next look is in {seconds:g} s")
        time.sleep(seconds)
