"""Run folders made for tests, with times, states and figures of one's choice, as kshot writes them."""

import json
import os
import platform
from datetime import datetime, timedelta, timezone

START = datetime(2026, 11, 16, 9, 12, tzinfo=timezone.utc)


def session(state="done", *, started=START, seconds=312, command=None, **more):
    """The record of one start of a run."""
    ended = None if state == "running" else (started + timedelta(seconds=seconds)).isoformat(timespec="seconds")
    return {
        "started": started.isoformat(timespec="seconds"),
        "ended": ended,
        "state": state,
        "command": command or ["kshot", "run"],
        "host": platform.node(),
        "platform": "Linux",
        "versions": {"python": "3.12.1", "kshot": "0.1.0"},
        **more,
    }


def figure(value=63.2, *, task="arc", model="embedded", metric="Accuracy", ci95=(58.9, 67.3), n=500, failed=0, **more):
    """A row of ``summary.json``."""
    ends = None if ci95 is None else list(ci95)
    row = {"task": task, "model": model, "metric": metric, "higher_is_better": True, "value": value, "n": n}
    return {**row, "failed": failed, "ci95": ends, **more}


def used(model="m", role="model", **more):
    """A row of ``usage`` in ``summary.json``."""
    return {"model": model, "role": role, "prompt_tokens": 10, "completion_tokens": 5, **more}


def make_run(
    path, *, sessions=None, models=("embedded",), datasets=("arc",), results=None, usage=(), changed=START, **spec
):
    """Write a run folder; without ``results`` it has no ``summary.json``."""
    path.mkdir(parents=True)
    identity = {"models": list(models), "datasets": list(datasets), **spec.pop("identity", {})}
    body = {"identity": identity, "format": 2, "options": {}, "sessions": sessions or [session()], **spec}
    (path / "spec.json").write_text(json.dumps(body))
    (path / "journal.jsonl").write_text("the journal is not read\n")
    (path / "samples.jsonl").write_text("nor are samples\n")
    if results is not None:
        (path / "summary.json").write_text(json.dumps({"results": results, "notes": [], "usage": list(usage)}))
    for file in path.iterdir():
        os.utime(file, (changed.timestamp(), changed.timestamp()))
    return path


def subsets(model, values, dataset="mmlu"):
    """The rows of a dataset with subsets: one for each, and their average."""
    labels = {"dataset": dataset}
    rows = [
        figure(value, task=f"{dataset}:{name}", model=model, subset=str(name), n=10, **labels)
        for name, value in enumerate(values)
    ]
    tasks = [row["task"] for row in rows]
    mean = sum(values) / len(values)
    ends = (mean - 2, mean + 2)
    whole = figure(
        mean, task=f"{dataset}[Macro Average]", model=model, average="macro", ci95=ends, tasks=tasks, **labels
    )
    part = figure(1.0, task=f"{dataset}[Stem Macro Average]", model=model, average="macro", **labels)
    return [*rows, part, whole]
