"""Figures that a class computes itself, in its ``calculate_metric``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

from kshot.core.metric import Measure, judged, measure_names
from kshot.core.records import Failed, Repeats, Sample, bare
from kshot.core.task import Task
from kshot.datasets.llmbox.classes import LLMBoxDataset

Call = Callable[[str, Callable[[], Any]], Any]
"""Calls code of the class; an error names it."""


class OwnFigures:
    """What ``calculate_metric`` of a class gives beside, or in place of, the figures of its metrics.

    A figure has a value for each sample where the class gives one; else every sample has the figure itself.
    """

    def __init__(self, dataset: LLMBoxDataset, known: Sequence[str]) -> None:
        """``known`` are the names of the metrics of the dataset."""
        self._dataset, self._known = dataset, frozenset(known)
        self._values: dict[str, list[float]] = {}

    def __repr__(self) -> str:
        """Show the dataset; the figures are no settings."""
        return f"OwnFigures({self._dataset.display_name!r})"

    @property
    def measures(self) -> Sequence[Measure]:
        """The means of its figures, once all answers are there."""
        return [Measure(name) for name in self._values]

    def compute(self, predictions: Sequence[Any]) -> None:
        """Have the class compute its figures over all predictions; those that its metrics give too are left out."""
        results, lists = self._dataset.calculate_metric(predictions)
        usual, _ = LLMBoxDataset.calculate_metric(self._dataset, predictions)
        for group, figures in results.items():
            for name, value in figures.items():
                if not _is_number(value) or _same(usual.get(group, {}).get(name), float(value)):
                    continue
                scores = lists.get(name, []) if group == self._dataset.display_name else []
                self._values[self._title(group, name)] = _values(float(value), scores, len(predictions))

    def _title(self, group: str, name: str) -> str:
        if group != self._dataset.display_name:
            return f"{group}: {name}"
        return f"{name} (calculate_metric)" if name in self._known else name

    def score(self, sample: Sample, answer: Any) -> Mapping[str, float]:  # noqa: ARG002 - all were scored at once
        """Return the values of one sample."""
        return {name: values[sample.position] for name, values in self._values.items()}


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def _one(answer: Any) -> Any:
    return answer.majority if isinstance(answer, Repeats) else answer


def _same(one: Any, other: float) -> bool:
    return isinstance(one, (int, float)) and math.isclose(one, other, abs_tol=1e-9)


def _values(figure: float, scores: Any, size: int) -> list[float]:
    """Return the scores of the samples if the figure is their mean, else the figure for each of them."""
    plain = [float(score) for score in scores if score is not None] if isinstance(scores, (list, tuple)) else []
    if len(plain) == size and math.isclose(sum(plain) / size, figure, abs_tol=1e-6):
        return plain
    return [figure] * size


def with_own_figures(task: Task[Any], dataset: LLMBoxDataset, call: Call) -> Task[Any]:
    """Return the task with the figures of ``calculate_metric``, which sees all answers that are scored."""
    own = OwnFigures(dataset, measure_names(task.metrics))

    def finish(answers: Sequence[Any]) -> Sequence[Any]:
        done = task.finish(answers) if task.finish is not None else answers
        if not any(isinstance(answer, Failed) for answer in answers):  # figures over some of the samples mislead
            predictions = [_one(bare(each)) for each in done]
            call("calculate_metric", lambda: own.compute(predictions))
        return done

    if judged(task.metrics):
        note = f"{dataset.display_name}: its calculate_metric is not called: a judge rates the replies one by one"
        return replace(task, notes=(*task.notes, note))
    return replace(task, metrics=(*task.metrics, own), finish=finish)
