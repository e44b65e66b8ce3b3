"""How many examples the prompts of a run had, as far as its folder says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kshot.core.records import ResultRow
from kshot.report.sample_look import shots_of
from kshot.runs.record import RunRecord
from kshot.runs.swept_rows import SHOWN, columns_of, fewer_examples


def shots_in_prompts(record: RunRecord, spec: Mapping[str, Any], task: str, model: str) -> int | None:
    """Return how many examples the prompts of a task had, or their median; None if the run did not record it.

    The option is no answer: a config, a task file or token lookup has a number of its own.
    """
    shown = _shown(record, spec, task, model)
    return int(columns_of(shown)[SHOWN]) if shown else None


def told_shots(record: RunRecord, spec: Mapping[str, Any], row: ResultRow) -> str:
    """Return the shots of a figure in words, such as ``5-shot``; nothing if they are unknown, or differ by task."""
    key = ("task", "model", "metric")
    whole = next((each for each in record.results if all(each[name] == row[name] for name in key)), row)
    tasks = whole.get("tasks") or [row["task"]]
    shown = [_shown(record, spec, task, row["model"]) for task in tasks]
    most = {max(each, default=None) for each in shown}
    if len(most) > 1 or None in most:
        return ""
    return f"{'up to ' if any(len(each) > 1 for each in shown) else ''}{most.pop()}-shot"


def _shown(record: RunRecord, spec: Mapping[str, Any], task: str, model: str) -> Counter[int]:
    """Count the prompts of a task by the number of examples they show; empty if the run did not record it."""
    of_model = spec.get("tasks", {}).get(model, {})
    facts = of_model.get(task, {}) if isinstance(of_model, dict) else {}
    rows = [row for row in record.results if row["task"] == task and row["model"] == model]
    shots = shots_of(facts, record.settings) if isinstance(facts, dict) else None
    if shots is None:
        return Counter()
    fewer = fewer_examples(facts)
    others = max((row["n"] + row.get("failed", 0) for row in rows), default=1) - len(fewer)
    return Counter(fewer.values()) + Counter({shots: others})
