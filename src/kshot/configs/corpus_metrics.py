"""Metrics that see all predictions at once: evaluators of configs themselves, correlation, area under the curve."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeAlias

from kshot.configs.evaluators.scores import MeasureFamily
from kshot.configs.names import ConfigCallable
from kshot.core.errors import DataError
from kshot.core.metric import Aggregate, Observation, Whole, places_digest
from kshot.core.records import Row, Sample, reference

ScoredPair: TypeAlias = tuple[Any, Any, Row]
"""A prediction, its reference, and the row of both."""


class CorpusMetric(MeasureFamily):
    """A metric of all pairs of prediction and reference at once.

    The value of a sample is its pair, so that a part of the samples, such as a resample of an interval, can be measured
    anew; where two systems are compared, samples of both are measured together.
    """

    def __repr__(self) -> str:
        """Show the class alone."""
        return f"{type(self).__name__}()"

    def aggregate(self, name: str) -> Aggregate:
        """Measure the samples whose values these are."""
        return Whole(partial(self.figure, name))

    def figures(self, pairs: Sequence[ScoredPair]) -> Mapping[str, float | None]:
        """Return the figures of these pairs, by name; None, or no entry, where they have none."""
        raise NotImplementedError

    def figure(self, name: str, values: Sequence[Observation]) -> float | None:
        """Return one figure of these pairs; those of the same pairs are computed once."""
        key = places_digest(values)
        if key not in self._known:
            self._known[key] = self.measured(values)
        return self._known[key].get(name)

    def measured(self, values: Sequence[Observation]) -> Mapping[str, float | None]:
        """Return the figures of these pairs."""
        return self.figures([value.content for value in values])

    @cached_property
    def _known(self) -> dict[bytes, Mapping[str, float | None]]:
        return {}

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:
        """Return the pair."""
        return self.observed((answer, None if sample.target is None else reference(sample.target), sample.fields))

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Return a pair that is scored outside a run."""
        return self.observed((prediction, reference, {}))

    def observed(self, pair: ScoredPair) -> Mapping[str, Any]:
        """Return a pair as the value of every name."""
        return dict.fromkeys(self.names, Observation(pair))


class Mcc(CorpusMetric):
    """Matthews' correlation of predicted and true labels, times 100."""

    bounds = (-100.0, 100.0)

    def __init__(self, name: str = "MCC") -> None:
        self.name = name

    def figures(self, pairs: Sequence[ScoredPair]) -> Mapping[str, float]:
        """Correlate: ``(c·s - Σ tₖpₖ) / √((s² - Σ pₖ²)(s² - Σ tₖ²))``."""
        predicted, true = [str(p) for p, _, _ in pairs], [str(t) for _, t, _ in pairs]
        size, right = len(pairs), sum(a == b for a, b in zip(predicted, true, strict=True))
        labels = {*predicted, *true}
        p, t = ([column.count(label) for label in labels] for column in (predicted, true))
        spread = (size**2 - sum(x * x for x in p)) * (size**2 - sum(x * x for x in t))
        agreed = right * size - sum(x * y for x, y in zip(p, t, strict=True))
        return {self.name: 100 * agreed / math.sqrt(spread) if spread else 0.0}


class AucRoc(CorpusMetric):
    """Area under the curve of the second option's probability against the true label, and accuracy."""

    bounds = (0.0, 100.0)

    def __init__(self, name: str = "AUC", share: str = "Accuracy") -> None:
        self.name, self.share = name, share

    @property
    def names(self) -> tuple[str, ...]:
        """The area, and the share of labels that get the higher probability."""
        return (self.name, self.share)

    def figures(self, pairs: Sequence[ScoredPair]) -> Mapping[str, float | None]:
        """Rank the probabilities; rows of one label alone have no area."""
        predicted: list[list[float]] = []
        for prediction, _, _ in pairs:
            if not isinstance(prediction, (list, tuple)):
                raise DataError("AUCROCEvaluator needs probabilities", hint="Use it with CLPInferencer.")
            predicted.append([float(each) for each in prediction])
        true = [int(label) for _, label, _ in pairs]
        above = [probabilities[1] for probabilities, label in zip(predicted, true, strict=True) if label == 1]
        below = sorted(probabilities[1] for probabilities, label in zip(predicted, true, strict=True) if label != 1)
        ordered = sum(bisect_left(below, x) + bisect_right(below, x) for x in above) / 2
        right = sum(p.index(max(p)) == label for p, label in zip(predicted, true, strict=True))
        area = 100 * ordered / (len(above) * len(below)) if above and below else None
        return {self.name: area, self.share: 100 * right / len(pairs)}


class ConfigEvaluator(CorpusMetric):
    """An evaluator that the config defines: its ``score`` sees all predictions, in the confined process."""

    def __init__(self, evaluator: ConfigCallable, options: Mapping[str, Any]) -> None:
        self._evaluator, self._options = evaluator, dict(options)
        self._names: tuple[str, ...] = ()
        self.name = evaluator.__name__

    @property
    def names(self) -> tuple[str, ...]:
        """The names that its ``score`` reports, known once it has scored something."""
        return self._names

    def observed(self, pair: ScoredPair) -> Mapping[str, Any]:
        """Return a pair; the first one shows which names are reported."""
        if not self._names:
            self._names = tuple(self.figures([pair]))
        return super().observed(pair)

    def figures(self, pairs: Sequence[ScoredPair]) -> Mapping[str, float]:
        """Call its ``score``."""
        predictions, references, rows = ([pair[i] for pair in pairs] for i in range(3))
        plain = [list(each) if isinstance(each, tuple) else each for each in predictions]
        found = self._evaluator.method(
            self._options, "score", predictions=plain, references=references, test_set=[dict(row) for row in rows]
        )
        if not isinstance(found, Mapping):
            raise DataError(f"{self.name}.score returned {type(found).__name__}, not a dict of figures")
        figures = {k: float(v) for k, v in found.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
        if not figures:
            raise DataError(f"{self.name}.score returned no figures, only: {', '.join(map(str, found)) or 'nothing'}")
        return figures
