"""The metrics that lm-eval knows by name: how their values are summed up, and exact match."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kshot.core.errors import DataError
from kshot.core.records import Failed
from kshot.lmeval.files import FunctionRef, TaskConfig
from kshot.lmeval.pipelines import without_patterns

MUTUAL_INFO = "acc_mutual_info"
"""The metric that also asks for each choice without a context."""
KNOWN: Mapping[str, tuple[str, bool]] = {
    "acc": ("mean", True),
    "acc_norm": ("mean", True),
    "acc_bytes": ("mean", True),
    MUTUAL_INFO: ("mean", True),
    "acc_all": ("mean", True),
    "exact_match": ("mean", True),
    "likelihood": ("mean", True),
    "brier_score": ("brier_score", False),
    "mcc": ("matthews_corrcoef", True),
    "f1": ("f1", True),
    "perplexity": ("perplexity", False),
    "word_perplexity": ("weighted_perplexity", False),
    "byte_perplexity": ("weighted_perplexity", False),
    "bits_per_byte": ("bits_per_byte", False),
    "bleu": ("bleu", True),
    "chrf": ("chrf", True),
    "chrf++": ("chrf++", True),
    "ter": ("ter", False),
    "bypass": ("bypass", True),
}
"""By name: how the values are summed up, and whether more is better."""
DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "multiple_choice": ("acc", "acc_norm"),
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
    "generate_until": ("exact_match",),
}
"""The metrics of a task that lists none."""
OF_PAIRS = frozenset(KNOWN) - {"exact_match", "bypass", "acc_all"}
"""Those that keep the pair of gold and response of a generated answer, which the aggregation then sums up."""
_OWN_KEYS = {"metric", "aggregation", "higher_is_better", "hf_evaluate"}
_EXACT_OPTIONS = {"regexes_to_ignore", "ignore_case", "ignore_punctuation", "ignore_numbers"}
_NO_PUNCTUATION: Any = str.maketrans("", "", string.punctuation)  # numpy takes a table, and its types do not say so
_NO_DIGITS: Any = str.maketrans("", "", string.digits)


@dataclass(frozen=True, slots=True)
class TaskMetric:
    """One entry of ``metric_list``."""

    name: str
    """The name of its values; of a function, the function's own name."""
    function: FunctionRef | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    aggregation: str | FunctionRef = "mean"
    higher_is_better: bool = True
    hub: bool = False
    """Whether the entry asks for the hub's metric of this name."""


def task_metrics(config: TaskConfig) -> list[TaskMetric]:
    """Return the metrics of a task, with what they leave unsaid. A function is called as the file calls it."""
    if config.metric_list is None:
        return [TaskMetric(name, None, {}, KNOWN[name][0], KNOWN[name][1]) for name in DEFAULTS[config.output_type]]
    return [_task_metric(entry, config) for entry in config.metric_list]


def _task_metric(entry: Mapping[str, Any], config: TaskConfig) -> TaskMetric:
    named = entry["metric"]
    where = config.where("metric_list")
    if not isinstance(named, str | FunctionRef):
        raise DataError(f"the metric {named!r} is no name and no !function", where=where)
    name = named.name if isinstance(named, FunctionRef) else named
    own, higher = KNOWN.get(name, ("mean", True))
    aggregation, better = entry.get("aggregation"), entry.get("higher_is_better")
    if not isinstance(aggregation, str | FunctionRef | None):
        raise DataError(f"the aggregation of {name} is no name and no !function: {aggregation!r}", where=where)
    return TaskMetric(
        name,
        named if isinstance(named, FunctionRef) else None,
        {key: value for key, value in entry.items() if key not in _OWN_KEYS},
        own if aggregation is None else aggregation,
        higher if better is None else bool(better),
        hub=entry.get("hf_evaluate") is True,
    )


def check_metric(metric: TaskMetric, config: TaskConfig) -> None:
    """Refuse a metric of generated answers that kshot cannot compute."""
    where = config.where("metric_list")
    if metric.function is not None:
        return
    if metric.name == "exact_match":
        if unknown := sorted(set(metric.options) - _EXACT_OPTIONS):
            raise DataError(f"exact_match has no option {unknown[0]!r}", where=where)
    elif metric.hub or metric.name not in OF_PAIRS | {"bypass"}:
        raise DataError(
            f"the metric {metric.name!r} is none of lm-eval's own; kshot runs no metrics of the hub",
            where=where,
            hint=f"Use one of {', '.join(sorted(KNOWN))}, or a !function beside the task file.",
        )


def exact_matches(
    pairs: Sequence[tuple[Sequence[Any], Sequence[Any]]], options: Mapping[str, Any]
) -> list[float | Failed]:
    """Return, for each pair of predictions and references, the share of equal ones, as lm-eval compares arrays.

    A prediction may be a list itself, where no filter takes one response: each of its elements is compared.
    """
    patterns = options.get("regexes_to_ignore")
    if patterns is None:
        return [_share_equal(predictions, references, options) for predictions, references in pairs]
    for each in (text for pair in pairs for side in pair for text in side):
        if not isinstance(each, str):
            raise DataError(f"exact_match cannot remove regexes_to_ignore from {each!r:.80}, which is no text")
    removed = without_patterns(patterns, [list(side) for pair in pairs for side in pair])
    both = zip(removed[::2], removed[1::2], strict=True)
    return [
        one if isinstance(one, Failed) else other if isinstance(other, Failed) else _share_equal(one, other, options)
        for one, other in both
    ]


def _share_equal(predictions: Sequence[Any], references: Sequence[Any], options: Mapping[str, Any]) -> float:
    try:
        sides = [_compared(np.asarray(side), options) for side in (predictions, references)]
        return float(np.mean(sides[0] == sides[1]))
    except (TypeError, ValueError) as exc:
        what = f"exact_match cannot compare {predictions!r:.80} with {references!r:.80}: {exc}"
        raise DataError(what, hint="Close the filters with take_first, or let doc_to_target give a text.") from exc


def _compared(texts: Any, options: Mapping[str, Any]) -> Any:
    if options.get("ignore_case"):
        texts = np.char.lower(texts)
    if options.get("ignore_punctuation"):
        texts = np.char.translate(texts, _NO_PUNCTUATION)
    if options.get("ignore_numbers"):
        texts = np.char.translate(texts, _NO_DIGITS)
    return texts
