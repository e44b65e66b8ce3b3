"""Entries of the frameworks' configs that kshot does not run: what they are, and what runs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kshot.configs.names import short

_AISBENCH, _OPENCOMPASS = "AISBench runs it: ais_bench FILE.", "OpenCompass runs it: opencompass FILE."

_TASKS = {
    "SWEBench": "SWE-bench: an agent repairs software in containers, and the software's own tests judge the repair",
    "Harbor": "Harbor: an agent works on tasks in containers, which judge what it leaves",
    "TAU2Bench": "tau2-bench: an agent calls tools, and talks to a user whom a second model plays",
    "VBench": "VBench: videos that a model has made are rated by other models",
}
"""What AISBench runs by tasks of its own, by the beginning of the names of datasets and tasks."""

_INFERENCERS = {
    "ToTInferencer": "a tree of thoughts: the config's prompt_wrapper has the model propose steps and rate them",
    "SWCELossInferencer": "the loss of all rows as one sequence of tokens, in sliding windows (bits per character)",
    "MinKPercentInferencer": "the likelihood of the least likely tokens of a text, a sign that a model has seen it",
    **dict.fromkeys(("ChatMLInferencer", "ParallelChatMLInferencer"), "rows that are ChatML conversations"),
}
_CHATML = "a ChatML dataset: a path and an evaluator, for which OpenCompass makes prompts, reader and judge itself"
_OWN_TASKS = ("OpenICL", "Empty")
"""The beginnings of the names of ordinary tasks, which run what the entries describe, or nothing."""


def tasks_named(variables: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the framework's special tasks by which a whole evaluation file runs its entries."""
    return tuple(dict.fromkeys(_tasks(variables)))


def _tasks(variables: Mapping[str, Any]) -> Iterator[str]:
    for section in ("infer", "eval"):
        value: Any = variables.get(section)
        for key in ("runner", "task", "type"):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None and not short(value).startswith(_OWN_TASKS):
            yield short(value)


def what_it_is(body: Mapping[str, Any], tasks: tuple[str, ...]) -> tuple[str, str]:
    """Return what an entry is and what runs it, if kshot does not; two empty texts if it does."""
    infer_cfg, eval_cfg = body.get("infer_cfg"), body.get("eval_cfg")
    inferencer = infer_cfg.get("inferencer") if isinstance(infer_cfg, Mapping) else None
    kind = short(inferencer.get("type")) if isinstance(inferencer, Mapping) else ""
    if kind in _INFERENCERS:
        return f"for {kind}, {_INFERENCERS[kind]}", _OPENCOMPASS
    if kind and isinstance(eval_cfg, Mapping) and "evaluator" in eval_cfg:
        return "", ""
    for name in (short(body.get("type", "")), *tasks):
        if said := next((said for start, said in _TASKS.items() if name.startswith(start)), ""):
            return said, _AISBENCH
    if infer_cfg is None and "reader_cfg" not in body and tasks:
        return f"the work of {tasks[0]}, a task of its framework's own", _AISBENCH
    if infer_cfg is None and isinstance(body.get("args"), Mapping) and "type" not in body:
        return "the work of an agent (it has args, and no prompts)", _AISBENCH
    return (_CHATML, _OPENCOMPASS) if infer_cfg is None and "evaluator" in body else ("", "")
