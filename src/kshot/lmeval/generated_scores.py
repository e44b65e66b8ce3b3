"""The values of documents whose answer is generated text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Failed
from kshot.lmeval.files import TaskConfig
from kshot.lmeval.functions import FunctionFault, Functions
from kshot.lmeval.metrics import TaskMetric, check_metric, exact_matches

_EXACT = "exact_match"


@dataclass(slots=True)
class _Answer:
    """One document: the gold, what is compared with it, and the values so far."""

    gold: Any
    result: Any
    values: dict[str, Any] = field(default_factory=dict)
    failed: Failed | None = None


def generated_values(
    config: TaskConfig,
    functions: Functions,
    results: Sequence[Sequence[Any]],
    metrics: Sequence[TaskMetric],
    *,
    choices: Sequence[Any] | None,
    targets: Sequence[Any],
    several: bool,
) -> list[dict[str, Any] | Failed]:
    """Return the values of each document; ``several``: any one of several golds is right.

    ``results`` are the filtered responses of each document, ``choices`` and ``targets`` what the task file says of it.
    """
    for metric in metrics:
        check_metric(metric, config)
    bypassed = any(metric.name == "bypass" for metric in metrics)
    answers = []
    for index, (own, target) in enumerate(zip(results, targets, strict=True)):
        where = f"{config.path}, document {index}"
        listed = None if choices is None else choices[index]
        gold = _gold(target, own[0], listed, where, several=several, cast=not bypassed)
        answers.append(_Answer(gold, own[0]))
    for metric in metrics:
        if several:
            _score_any(metric, functions, answers)
        else:
            _score_each(metric, functions, answers)
    return [each.values if each.failed is None else each.failed for each in answers]


def _gold(target: Any, result: Any, choices: Any, where: str, *, several: bool, cast: bool) -> Any:
    """Return what a response is compared with, of the type of the response where that is one value."""
    try:
        if choices is not None:
            return choices[target]
        if several:
            return list(target)
        if not cast or isinstance(result, list) or type(target) is type(result):
            return target
        return type(result)(target)
    except (TypeError, ValueError, IndexError, KeyError) as exc:
        what = f"doc_to_target gave {target!r:.80}, which cannot be compared with {result!r:.80}: {exc}"
        raise DataError(what, where=where) from exc


def _score_each(metric: TaskMetric, functions: Functions, answers: Sequence[_Answer]) -> None:
    """Score documents that have one gold each; a metric that gives a dict gives several values."""
    live = [each for each in answers if each.failed is None]
    found = _measured(metric, functions, [(each.gold, each.result) for each in live])
    for answer, value in zip(live, found, strict=True):
        if isinstance(value, Failed):
            answer.failed = value
        elif isinstance(value, Mapping):
            answer.values |= {str(name): own for name, own in value.items()}
        else:
            answer.values[metric.name] = value


def _score_any(metric: TaskMetric, functions: Functions, answers: Sequence[_Answer]) -> None:
    """Score documents by any of their golds: 1 if one of them has a value that is not 0."""
    live = [each for each in answers if each.failed is None]
    for answer in live:
        answer.gold = answer.gold if isinstance(answer.gold, list) else [answer.gold]
    if metric.name == _EXACT and metric.function is None:
        for answer in live:  # later metrics see the response as often as there are golds, as in lm-eval
            answer.result = [answer.result] * len(answer.gold)
        found: list[Any] = list(exact_matches([(each.result, each.gold) for each in live], metric.options))
        groups = [[value] for value in found]
    else:
        pairs = [(gold, answer.result) for answer in live for gold in answer.gold]
        values = iter(_measured(metric, functions, pairs))
        groups = [[next(values) for _ in answer.gold] for answer in live]
    for answer, group in zip(live, groups, strict=True):
        failed = next((value for value in group if isinstance(value, Failed)), None)
        if failed is not None:
            answer.failed = failed
        else:
            answer.values[metric.name] = float(any(_own(value, metric) for value in group))


def _own(value: Any, metric: TaskMetric) -> Any:
    if not isinstance(value, Mapping):
        return value
    if metric.name not in value:
        raise DataError(f"the metric {metric.name} gave a dict without {metric.name!r}: {sorted(map(str, value))}")
    return value[metric.name]


def _measured(metric: TaskMetric, functions: Functions, pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Return what a metric gives for each pair of gold and response."""
    if metric.function is not None:
        found = functions.measured(metric.function, metric.options, pairs, keep_faults=True)
        return [Failed("metric", str(each)) if isinstance(each, FunctionFault) else each for each in found]
    if metric.name == _EXACT:
        return list(exact_matches([([result], [gold]) for gold, result in pairs], metric.options))
    if metric.name == "bypass":
        return [None] * len(pairs)
    return [[gold, result] for gold, result in pairs]
