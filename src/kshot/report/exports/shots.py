"""How many examples the prompts of a run had, as far as its folder says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshot.core.records import ResultRow
from kshot.report.sample_look import shots_of
from kshot.runs.record import RunRecord


def shots_in_prompts(record: RunRecord, spec: Mapping[str, Any], task: str, model: str) -> int | None:
    """Return how many examples each prompt of a task had, or at most had; None if the run did not record it.

    The option is no answer: a config, a task file or token lookup has a number of its own.
    """
    return shots_of(_facts(spec, task, model), record.settings)


def told_shots(record: RunRecord, spec: Mapping[str, Any], row: ResultRow) -> str:
    """Return the shots of a figure in words, such as ``5-shot``; nothing if they are unknown, or differ by task."""
    key = ("task", "model", "metric")
    whole = next((each for each in record.results if all(each[name] == row[name] for name in key)), row)
    tasks = whole.get("tasks") or [row["task"]]
    found = {shots_in_prompts(record, spec, task, row["model"]) for task in tasks}
    shots = found.pop()
    if found or shots is None:
        return ""
    fewer = any(_facts(spec, task, row["model"]).get("kept") for task in tasks)
    return f"{'up to ' if fewer else ''}{shots}-shot"


def _facts(spec: Mapping[str, Any], task: str, model: str) -> Mapping[str, Any]:
    of_model = spec.get("tasks", {}).get(model, {})
    facts = of_model.get(task, {}) if isinstance(of_model, dict) else {}
    return facts if isinstance(facts, dict) else {}
