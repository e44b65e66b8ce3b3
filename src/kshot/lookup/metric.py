"""The metric of token lookup: accuracy by several rules, and the share of each kind of error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshot.core.records import Sample, Value
from kshot.lookup.scoring import KINDS, error_kind, rule
from kshot.metrics import Metric

_RULE_LABELS = {"first_word": "first word", "tolerant_tags": "tolerant"}


class LookupAccuracy(Metric):
    """Whether the answer is right, by the rule that decides and by others, and which kind of error it is."""

    bounds = (0.0, 100.0)
    binary = True

    def __init__(self, task: str, rules: Sequence[str]) -> None:
        """Name the rules; the first decides ``Accuracy`` and the kinds of error."""
        self.task = task
        first, *others = rules
        self._predict = rule(first)
        self._rules = {"Accuracy": self._predict} | {f"Accuracy:{_RULE_LABELS[name]}": rule(name) for name in others}

    @property
    def names(self) -> tuple[str, ...]:
        """Accuracy by every rule, then the kinds of error."""
        return (*self._rules, *(f"error: {kind}" for kind in KINDS))

    @property
    def details(self) -> tuple[str, ...]:
        """All but ``Accuracy``: they break it down, or read the reply by another rule."""
        return tuple(name for name in self.names if name != "Accuracy")

    def predict(self, reply: str) -> str:
        """Read a reply by the rule that decides."""
        return self._predict(reply)

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value]:
        """Score one reply."""
        text, target = sample.fields["input"], sample.fields["target"]
        right = {name: 100.0 * (predict(answer) == target) for name, predict in self._rules.items()}
        kind = error_kind(text, self.task, self.predict(answer))
        return right | {f"error: {each}": 100.0 * (each == kind) for each in KINDS}
