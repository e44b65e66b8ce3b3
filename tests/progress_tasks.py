"""Tasks of a run that is under way, in few words."""

from kshot.core.watcher import MeterReading
from kshot.runs.progress import TaskProgress


def task_progress(task, model, total=None, group="", state="waiting", done=0, *, rate=None, **reading):
    """Return the progress of a task; ``reading``: what the meter counts beside ``done``."""
    return TaskProgress(task, model, total, group, state, MeterReading(done, **reading), rate)
