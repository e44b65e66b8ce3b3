"""The evaluator of TheoremQA: options, yes and no, and numbers within four percent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kshot.cleanups.literals import NO_VALUE, computed
from kshot.cleanups.theorems import without_units
from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.options import column
from kshot.configs.evaluators.scores import RIGHT, WRONG, Points, text_of
from kshot.configs.evaluators.tallies import gold_of
from kshot.core.errors import DataError
from kshot.core.records import Sample, Value

_OPTIONS = tuple(f"({letter})" for letter in "abcdef")
_NUMBERS = ("float", "integer", "bool")
_NEAR = 0.04


def number_in(answer: str) -> float | None:
    """Return the number that an answer is, also one that must be computed; None where it is none.

    A formula in LaTeX is none: the clean-ups of TheoremQA have computed those that can be.
    """
    text = without_units(answer)
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return float(computed(text))
    except NO_VALUE:
        return None


class TheoremAnswer(Points):
    """Share of answers that are the reference: its option, its text, or its number (TheoremQA)."""

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value]:
        """Compare by the row's ``Answer_type``."""
        kind = column(sample, "Answer_type", "TheoremQA")
        right = self._same(text_of(answer, "TheoremQAEvaluatorV3"), str(gold_of(sample)), str(kind))
        return {self.name: RIGHT if right else WRONG}

    def _same(self, said: str, gold: str, kind: str) -> bool:
        if gold.lower() in _OPTIONS:
            return gold.lower() in said.lower()
        if said.lower() == gold.lower():
            return True
        if kind not in _NUMBERS:
            return False
        try:
            wanted = computed(gold)
        except NO_VALUE:
            raise DataError(f"TheoremQA has {gold!r:.80} as the reference of a {kind}") from None
        found = number_in(said)
        if found is None or not isinstance(wanted, (int, float)) or not math.isfinite(found):
            return False
        return round(found) == wanted if isinstance(wanted, int) else abs(found - wanted) <= _NEAR * abs(wanted)


EVALUATORS: dict[str, Factory] = {"TheoremQAEvaluatorV3": plain(TheoremAnswer)}
