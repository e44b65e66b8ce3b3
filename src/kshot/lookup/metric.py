"""The metric of token lookup: accuracy by several rules, and the share of each kind of error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshot.core.metric import Measure
from kshot.core.records import Sample
from kshot.lookup.scoring import KINDS, error_kind, rule
from kshot.metrics import Metric
from kshot.metrics.metric import PERCENT

_RULE_LABELS = {"first_word": "first word", "tolerant_tags": "tolerant"}


class LookupAccuracy(Metric):
    """Whether the answer is right, by the rule that decides and by others, and which kind of error it is."""

    def __init__(self, task: str, rules: Sequence[str]) -> None:
        """Name the rules; the first decides ``Accuracy`` and the kinds of error."""
        self.task = task
        first, *others = rules
        self._predict = rule(first)
        self._rules = {"Accuracy": self._predict} | {f"Accuracy:{_RULE_LABELS[name]}": rule(name) for name in others}

    @property
    def measures(self) -> Sequence[Measure]:
        """Accuracy; then what breaks it down: accuracy by every other rule, and the kinds of error."""
        names = (*self._rules, *(f"error: {kind}" for kind in KINDS))
        return [Measure(name, bounds=PERCENT, binary=True, detail=name != "Accuracy") for name in names]

    def predict(self, reply: str) -> str:
        """Read a reply by the rule that decides."""
        return self._predict(reply)

    def score(self, sample: Sample, answer: Any) -> Mapping[str, float]:
        """Score one reply."""
        text, target = sample.fields["input"], sample.fields["target"]
        right = {name: 100.0 * (predict(answer) == target) for name, predict in self._rules.items()}
        kind = error_kind(text, self.task, self.predict(answer))
        return right | {f"error: {each}": 100.0 * (each == kind) for each in KINDS}
