"""What would run of a task, and what is missing: ``kshot check lmeval:…``. Neither a model nor the hub is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kshot.core.entry_checks import EntryCheck, Lack
from kshot.core.errors import KshotError
from kshot.core.extras import require
from kshot.core.metric import measure_names
from kshot.core.task import Task
from kshot.lmeval.files import FunctionRef, TaskConfig
from kshot.lmeval.functions import Functions, references
from kshot.lmeval.rows import hub_name
from kshot.lmeval.tree import Leaf

_ASKS = {
    "generate_until": "generates",
    "multiple_choice": "compares choices",
    "loglikelihood": "measures a target",
    "loglikelihood_rolling": "measures a document",
}


def check_task(
    leaf: Leaf,
    given_place: Callable[[], str | None],
    functions_of: Callable[[TaskConfig], Functions],
    compile_task: Callable[[], Task[Any]],
) -> EntryCheck:
    """Compile a task with its rows, if they are here; else read its file, and look for its functions alone.

    ``given_place``: the place that the user names for its rows.
    """
    missing: list[Lack] = []
    try:
        config = leaf.config
    except KshotError as exc:
        return EntryCheck(leaf.name, "", "", "", missing=(_lack("file", exc),))
    functions = functions_of(config)
    missing += filter(None, (_missing_function(functions, each) for each in dict.fromkeys(references(config))))
    data, evaluation = "", ", ".join(dict.fromkeys(_metrics(config)))
    hub = hub_name(config, given_place())
    try:
        if hub is not None:
            require("loading Hugging Face datasets", "datasets")
            data = f"hub: {hub}"
        elif not missing:
            task = compile_task()
            data = _sizes(task)
            evaluation = ", ".join(measure_names(task.metrics))
    except KshotError as exc:
        missing.append(_lack("data" if not data else "prompts", exc))
    count = config.num_fewshot or 0
    shots = f", {count} example{'s' if count > 1 else ''}" if count else ""
    return EntryCheck(leaf.name, f"{_ASKS[config.output_type]}{shots}", data, evaluation, missing=tuple(missing))


def _missing_function(functions: Functions, function: FunctionRef) -> Lack | None:
    try:
        functions.find(function)
    except KshotError as exc:
        return _lack("functions", exc)
    return None


def _metrics(config: TaskConfig) -> list[str]:
    if config.process_results is not None:
        return [str(config.process_results)]
    return [str(each["metric"]) for each in config.metric_list or ()] or ["default metrics"]


def _sizes(task: Task[Any]) -> str:
    count = sum(1 for _ in task.samples)
    return f"{count} document{'s' if count > 1 else ''}"


def _lack(part: str, exc: KshotError) -> Lack:
    return Lack(part, str(exc), (exc.what,))
