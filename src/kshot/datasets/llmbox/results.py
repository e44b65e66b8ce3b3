"""The figures of a dataset as LLMBox's ``calculate_metric`` gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kshot.core.errors import DataError
from kshot.metrics import Metric

ClassResults = tuple[dict[str, dict[str, float]], dict[str, list[float]]]
"""The figures by the name of the dataset and of each category; the scores of the samples by the name of the metric."""


def class_results(
    name: str,
    metrics: Sequence[Any],
    predictions: Sequence[Any],
    references: Sequence[Any],
    categories: Sequence[str] | None = None,
) -> ClassResults:
    """Score all predictions by all metrics, and those of each category by themselves."""
    for metric in metrics:
        if not isinstance(metric, Metric):
            raise DataError(f"calculate_metric cannot compute {metric!r}")
    figures = {}
    for category in sorted(set(categories or ())):
        chosen = [i for i, each in enumerate(categories or ()) if each == category]
        figures[f"{name}[{category}]"] = _figures(
            metrics, [predictions[i] for i in chosen], [references[i] for i in chosen]
        )
    figures[name] = _figures(metrics, predictions, references)
    lists: dict[str, list[float]] = {}
    for metric in metrics:
        lists |= metric.values(predictions, references)
    return figures, lists


def _figures(metrics: Sequence[Any], predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for metric in metrics:
        found |= metric(predictions, references)
    return found
