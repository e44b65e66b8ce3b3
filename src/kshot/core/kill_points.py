"""Named points at which tests kill this process, as a machine that dies would: no handler runs, nothing is flushed.

``KSHOT_KILL_POINT="journal.written 3"`` kills the process where it passes this point for the third time. Without the
variable a point costs one comparison. ``make chaos`` kills runs at every point and resumes them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from kshot.core.errors import UsageError

VARIABLE = "KSHOT_KILL_POINT"

_FILE_STEPS = {
    "opened": "its draft is open and empty",
    "writing": "a part of the draft has been written",
    "written": "the draft is complete and has not replaced the file",
    "synced": "the draft is on the disk and has not replaced the file",
    "replaced": "the draft has replaced the file",
}
_FILES = {
    "spec": "`spec.json`",
    "samples": "`samples.jsonl`",
    "summary": "`summary.json`",
    "export": "an exported file",
}

POINTS = {
    "journal.before_write": "an answer is there and not in the journal",
    "journal.torn_line": "half of its line is in the journal",
    "journal.written": "its line is in the journal and has not been used",
    "journal.before_fsync": "lines are in the journal and perhaps not on the disk",
    "journal.after_fsync": "all lines of the journal are on the disk",
    "journal.cut": "a partial last line has been cut off",
    "journal.repaired": "a journal without its damaged lines is written and has not replaced the other",
    "journal.replaced": "a journal without its damaged lines has replaced the other",
    **{f"{name}.{step}": f"{file}: {what}" for name, file in _FILES.items() for step, what in _FILE_STEPS.items()},
    **{f"report.{step}": f"`report.html`: {what}" for step, what in _FILE_STEPS.items() if step != "synced"},
    "run.model_opened": "a model is open and recorded in `spec.json`",
    "run.task_done": "a task has ended, and the next has not begun",
    "run.model_done": "a model has ended, and the next has not begun",
    "server.before_request": "a request is about to be sent to a server",
    "server.reply_read": "a server's reply, or the error that came instead, has not been used",
    "hf.computed": "an `hf:` model has computed an answer and not handed it on",
    "judge.replied": "a judge's reply is in the journal and has not been read",
    "index.opened": "the folder of an index is made and empty",
    "index.building": "an index is half built",
    "index.built": "the files of an index are there, and its manifest is not",
    "index.complete": "an index is complete and has no name",
    "index.published": "an index has got its name and has not been opened",
    "index.damaged_moved": "a damaged index has been moved away and not removed",
    "download.opened": "the folder of a download is made and empty",
    "download.complete": "a download is complete and has no name",
    "download.published": "a download has got its name and has not been read",
}
"""Every point, with what is true there."""

_watch: Callable[[str, Callable[[], object]], None] | None = None


def reach(name: str, last: Callable[[], object] = lambda: None) -> None:
    """Pass a point. A process that is killed here does ``last`` first."""
    if _watch is not None:
        _watch(name, last)


def watch(seen: Callable[[str, Callable[[], object]], None] | None) -> None:
    """Call ``seen`` at every point that is passed from now on; None: at no point."""
    global _watch  # noqa: PLW0603 - the state of this module
    _watch = seen


def arm(setting: str) -> None:
    """Kill this process at the point that the setting names (``NAME TIMES``)."""
    name, _, times = setting.partition(" ")
    left = int(times) if times.isdecimal() else 0
    valid = name in POINTS and left > 0

    def kill_at_point(here: str, last: Callable[[], object]) -> None:
        nonlocal left
        if not valid:
            raise UsageError(f"{VARIABLE} is {setting!r}; it must name a point and how often it is passed")
        if here == name:
            left -= 1
            if not left:
                last()
                os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # on Windows SIGTERM ends it as hard

    watch(kill_at_point)


if os.environ.get(VARIABLE):
    arm(os.environ[VARIABLE])
