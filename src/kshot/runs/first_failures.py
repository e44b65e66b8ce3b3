"""The first failure of each task of a run, for people."""

from __future__ import annotations

from kshot.core.records import ResultRow
from kshot.runs.headline import task_rows
from kshot.runs.record import RunRecord


def failure_line(task: str, model: str, failed: int, replies: int, first: str) -> str:
    """Say how many samples of a task failed, and why the first one did."""
    counts = {"failed": failed, "replies failed": replies}
    many = " and ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"{task} on {model}: {many} ({first})"


def first_failures(record: RunRecord) -> list[str]:
    """Return a line for each task with failures: of a run that was read back, from its samples, one after the other."""
    if record.first_failures or not any(any(_counts(row)) for row in record.results):
        return record.first_failures
    first: dict[tuple[str, str], str] = {}
    for sample in record.iter_samples():
        if sample.get("failed"):
            first.setdefault((str(sample.get("task")), str(sample.get("model"))), str(sample["failed"]))
    tasks: dict[tuple[str, str], ResultRow] = {}
    for row in task_rows(record.results):
        tasks.setdefault((row["task"], row["model"]), row)
    lost = {key: _counts(row) for key, row in tasks.items() if any(_counts(row))}
    unknown = "its samples do not say why"
    return [failure_line(*key, *counts, first.get(key, unknown)) for key, counts in lost.items()]


def _counts(row: ResultRow) -> tuple[int, int]:
    """Return how many samples and replies failed."""
    return row["failed"], row.get("failed_replies", 0)
