"""The checks of gates that a run passes by itself: whether figures reach thresholds, and whether samples failed.

A row says which gate it belongs to (``fail_under``, ``fail_if_worse``, ``fail_on_failed``), whether it ``passed``, a
``reason`` in words for both cases, and what it is about: the task, the model, the metric, the numbers.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kshot.core.errors import RunError, UsageError
from kshot.core.failed_parts import failure_mark, failure_words
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label
from kshot.core.watcher import PlannedTask
from kshot.runs.headline import finite, task_rows
from kshot.runs.swept_rows import BASE

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MAX_KNOWN = 20
_MAX_IDS = 5
_LABELS = ("dataset", "benchmark", BASE)
"""Labels of figures that a threshold may name in the place of a task."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """What a figure must reach: ``name`` is a metric, or TASK:METRIC for the figure of one task."""

    name: str
    value: float

    def __str__(self) -> str:
        """Return it as a user writes it."""
        return f"{self.name}={self.value:g}"


def thresholds(given: str | Sequence[str] | Mapping[str, float]) -> list[Threshold]:
    """Read ``METRIC=X`` or ``TASK:METRIC=X``, several of them, or a mapping of names to numbers."""
    if isinstance(given, Mapping):
        return [_threshold(name, value, f"{name}={value}") for name, value in given.items()]
    if not isinstance(given, (str, list, tuple)):
        raise UsageError(f"fail_under is {given!r:.60}", hint=_FORM)
    return [_read(text) for text in ([given] if isinstance(given, str) else given)]


_FORM = "Write METRIC=NUMBER or TASK:METRIC=NUMBER, as in Accuracy=60."


def _read(text: Any) -> Threshold:
    if not isinstance(text, str):
        raise UsageError(f"fail_under has {text!r:.60}", hint=_FORM)
    name, _, number = (part.strip() for part in text.rpartition("="))
    return _threshold(name, float(number) if _NUMBER.fullmatch(number) else None, text)


def _threshold(name: Any, value: Any, written: str) -> Threshold:
    number = finite(value)
    if not isinstance(name, str) or not name or number is None:
        raise UsageError(f"--fail-under {written!r:.80} is not a metric and a number", hint=_FORM)
    return Threshold(name, number)


# ---- figures ----


def check_under(results: Sequence[ResultRow], threshold: Threshold) -> list[ResultRow]:
    """Return a row for each figure that the threshold is for; a name that no figure has is an error."""
    chosen = _chosen(results, threshold.name)
    if not chosen:
        of_metric = [row for row in results if threshold.name.endswith(f":{row['metric']}")]
        tasks = [str(row[label]) for label in ("task", *_LABELS) for row in of_metric if label in row]
        raise _unknown(threshold.name, _names(results), tasks)
    directions = _directions(results)
    return [_under(row, threshold, upwards=_is_better_upwards(row, directions)) for row in chosen]


def check_names(wanted: Iterable[Threshold], metrics: Iterable[str]) -> None:
    """Refuse thresholds that none of these metrics can have, before anything is asked."""
    known = list(dict.fromkeys(metrics))
    for threshold in wanted:
        if not any(threshold.name == name or threshold.name.endswith(f":{name}") for name in known):
            raise _unknown(threshold.name, known)


def check_tasks(wanted: Iterable[Threshold], tasks: Sequence[PlannedTask]) -> None:
    """Refuse thresholds of a planned task with settings that it does not have, before anything is asked.

    Averages, categories and means of draws have names of their own, which are not planned: those that go on after a
    planned name, or stop before its end, may come.
    """
    planned = {name for task in tasks for name in (task.task, task.group) if name}
    metrics = {name for task in tasks for name in task.metrics}
    for threshold in wanted:
        for metric in metrics:
            task = threshold.name.removesuffix(f":{metric}")
            own = [name for name in planned if _without_settings(name) == _without_settings(task)]
            fits = any(name.startswith(task) or task.startswith(name) for name in planned)
            if task != threshold.name and own and not fits:
                raise _unknown(threshold.name, sorted(metrics), own)


def _without_settings(task: str) -> str:
    return task.partition(",")[0]


def _unknown(name: str, known: Sequence[str], tasks: Sequence[str] = ()) -> UsageError:
    """Return the error of a name that no figure has; ``tasks`` have the metric that it ends in."""
    task = name.rpartition(":")[0]
    longer = sorted((each for each in tasks if each.startswith(task)), key=len)
    near = difflib.get_close_matches(task, tasks, 1) or longer
    if task and near:
        hint = f"Do you mean {near[0]}:{name.rpartition(':')[2]}?"
        return UsageError(f"--fail-under: the run has no figure {name!r:.200}", hint=hint)
    shown = ", ".join(known[:_MAX_KNOWN]) + (f" and {len(known) - _MAX_KNOWN} more" if len(known) > _MAX_KNOWN else "")
    hint = f"It has: {shown}." if known else "It has none."
    return UsageError(f"--fail-under: the run has no figure {name!r:.80}", hint=hint)


def _names(results: Iterable[ResultRow]) -> list[str]:
    return list(dict.fromkeys(str(row["metric"]) for row in results if not row.get("detail")))


def _chosen(results: Sequence[ResultRow], name: str) -> list[ResultRow]:
    """Return the figures that a name stands for.

    A metric stands for its figures of all tasks, or of the averages over them; TASK:METRIC for that of one task, of a
    category, of a dataset or of all values of a sweep. The names are compared whole, so that they may contain any
    character.
    """
    whole = [row for row in results if "category" not in row and row["metric"] == name]
    of_task = [row for row in results if f"{row['task']}:{row['metric']}" == name]
    if whole and of_task:
        hint = f"Write {whole[0]['task']}:{name} for the one, and rename the other."
        raise UsageError(f"--fail-under: {name!r:.80} is a metric, and a metric of a task too", hint=hint)
    of_dataset = [
        row
        for row in results
        if "category" not in row and any(f"{row[label]}:{row['metric']}" == name for label in _LABELS if label in row)
    ]
    return of_task or _topmost(whole or of_dataset, results)


def _topmost(rows: Sequence[ResultRow], results: Sequence[ResultRow]) -> list[ResultRow]:
    """Leave out the figures that another one stands for: an average for its subsets, a mean for its draws.

    A figure without value stays: no average contains it.
    """
    inside = {
        (row["model"], task): row["task"]
        for row in results
        if isinstance(row.get("tasks"), list)
        for task in row["tasks"]
        if isinstance(task, str)
    }
    totals = {(row["model"], row["metric"], row["task"]) for row in rows if "tasks" in row}
    spreads = {(row["model"], row["metric"]) for row in rows if "sd" in row}
    found = []
    for row in rows:
        if "average" in row and "tasks" not in row:
            continue  # that of some subsets
        averaged = (row["model"], row["metric"], inside.get((row["model"], row["task"]))) in totals
        drawn = "example_seed" in row and (row["model"], row["metric"]) in spreads
        if not (averaged or drawn) or finite(row["value"]) is None:
            found.append(row)
    return found


def _directions(results: Iterable[ResultRow]) -> dict[tuple[str, str], set[Any]]:
    """Return by model and task whether more of its figures is better, of those that are no details."""
    found: dict[tuple[str, str], set[Any]] = {}
    for row in results:
        if not row.get("detail"):
            found.setdefault((row["model"], row["task"]), set()).add(row.get("higher_is_better"))
    return found


def _is_better_upwards(row: ResultRow, directions: Mapping[tuple[str, str], set[Any]]) -> bool:
    """Return whether more of a figure is better. A detail has the direction of the other figures, if they have one."""
    own = {row.get("higher_is_better")}
    found = directions.get((row["model"], row["task"]), set()) if row.get("detail") else own
    if "error" in row:  # the share of a kind of error breaks an accuracy down, and less of it may be better
        raise UsageError(
            f"--fail-under: {row['metric']} is a kind of error", hint="Name the figure that it breaks down."
        )
    if found not in ({True}, {False}):
        hint = "kshot score RUN writes the figures again, with that; or name another figure."
        raise RunError(f"the folder does not say whether higher or lower {row['metric']} is better", hint=hint)
    return True in found


def _under(row: ResultRow, threshold: Threshold, *, upwards: bool) -> ResultRow:
    """Return whether a figure reaches a threshold: from above, where lower figures are better."""
    what = f"{row['task']} {metric_label(row)} on {row['model']}"
    value, least = finite(row["value"]), threshold.value
    if value is None:
        failed = f" ({row['failed']} failed)" if row["failed"] else ""
        passed, reason = False, f"{what} has no value: no sample was scored{failed}"
    else:
        passed = math.isclose(value, least, rel_tol=1e-9, abs_tol=1e-9) or (value > least) == upwards
        words = ("at least", "below") if upwards else ("at most", "above")
        ceiling = "" if upwards else " (lower is better)"
        failed = f" ({failure_words(row)})" if failure_mark(row) else ""
        reason = f"{what} is {_shown(value, least)}, {words[not passed]} {least:g}{ceiling}{failed}"
    return {
        "gate": "fail_under",
        "passed": passed,
        "reason": reason,
        **{name: row[name] for name in ("task", "model", "metric", "rule") if name in row},
        "higher_is_better": upwards,
        "value": value,
        "threshold": least,
        **{name: row[name] for name in ("n", "failed", "ci95", "left_out", "partly_failed") if name in row},
    }


def _shown(value: float, threshold: float) -> str:
    """Return a value with two digits after the point, or with all where it would look like the threshold."""
    rounded = f"{value:.2f}"
    same_side = (float(rounded) < threshold) == (value < threshold) and float(rounded) != threshold
    return rounded if same_side or value == threshold else repr(value)


def scale_notes(wanted: Iterable[Threshold], results: Sequence[ResultRow]) -> Iterator[str]:
    """Say which thresholds look like shares of 1 where figures go up to 100."""
    for threshold in wanted:
        bounds = [row.get("bounds") for row in _chosen(results, threshold.name)]
        if 0 < threshold.value < 1 and any(isinstance(each, list) and each == [0, 100] for each in bounds):
            yield f"--fail-under {threshold}: this figure is between 0 and 100, so {threshold.value:g} is less than 1 %"


# ---- failed samples ----


def check_failed(results: Sequence[ResultRow], samples: Iterable[ResultRow]) -> list[ResultRow]:
    """Return a row for each model and task: it passes if every sample was answered, by every reply that was wanted."""
    totals: dict[tuple[str, str], int] = {}
    failed: dict[tuple[str, str], list[str]] = {}
    for sample in samples:
        key = str(sample.get("model")), str(sample.get("task"))
        totals[key] = totals.get(key, 0) + 1
        if sample.get("failed"):
            failed.setdefault(key, []).append(str(sample.get("id")))
    replies: dict[tuple[str, str], int] = {}
    for row in task_rows(results):
        key = row["model"], row["task"]
        totals.setdefault(key, 0)
        replies[key] = max(replies.get(key, 0), row.get("failed_replies", 0))
    if not totals:
        raise RunError("the run has no sample", hint="Run the command again.")
    return [_failed(*key, total, failed.get(key, []), replies.get(key, 0)) for key, total in totals.items()]


def _failed(model: str, task: str, total: int, ids: Sequence[str], replies: int) -> ResultRow:
    what, samples = f"{task} on {model}", f"{total} sample{'s' * (total != 1)}"
    if ids:
        more = ", …" if len(ids) > _MAX_IDS else ""
        reason = f"{what}: {len(ids)} of {samples} failed ({', '.join(ids[:_MAX_IDS])}{more})"
    elif replies:
        reason = f"{what}: {replies} of several replies to a sample failed"
    else:
        reason = f"{what}: {samples}, none failed" if total else f"{what}: there is no sample"
    return {
        "gate": "fail_on_failed",
        "passed": bool(total) and not ids and not replies,
        "reason": reason,
        "task": task,
        "model": model,
        "n": total - len(ids),
        "failed": len(ids),
        "failed_replies": replies,
        "ids": list(ids[:_MAX_IDS]),
    }
