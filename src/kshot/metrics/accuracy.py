"""Accuracy: the share of predictions that equal the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kshot.core.metric import Measure
from kshot.metrics.metric import Metric, measures_of


class Accuracy(Metric):
    """Share of predictions equal to the reference, or to one of them when there is a list.

    Texts are compared without the white space around them. ``Accuracy("strict")`` is reported as ``Accuracy:strict``.
    """

    bounds = (0.0, 100.0)
    binary = True

    def __init__(self, name: str | None = None) -> None:
        self.name = f"Accuracy:{name}" if name else "Accuracy"

    @classmethod
    def by(cls, rules: Sequence[str], headline: str) -> tuple[Accuracy, ...]:
        """Return the accuracies by several rules of one method: the headline as ``Accuracy``, then each by its name."""
        return (_ByRule("Accuracy", headline), *(_ByRule(rule, rule) for rule in rules))

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Return 100 for a right prediction, 0 for any other."""
        given = _stripped(prediction)
        several = isinstance(reference, list | tuple | set | frozenset)
        right = (several and given in [_stripped(each) for each in reference]) or given == _stripped(reference)
        return 100.0 if right else 0.0


class _ByRule(Accuracy):
    """The accuracy of the options that one rule chose; systems are compared by the headline alone."""

    def __init__(self, name: str, rule: str) -> None:
        super().__init__()
        self.name, self._rule = name, rule

    @property
    def measures(self) -> Sequence[Measure]:
        """The share of right options."""
        return [replace(measure, rule=self._rule, detail=self.name == self._rule) for measure in measures_of(self)]


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value
