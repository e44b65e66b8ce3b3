"""Measures that see all predictions at once: those of configs themselves, correlation, area under the curve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kshot.configs.names import Own
from kshot.core.errors import DataError
from kshot.core.records import Sample, Value, reference
from kshot.metrics import Metric

Pair = tuple[Any, Any, Mapping[str, Any]]
NO_FIGURE = -1e300
"""Stands where there is no figure: finite, and like no figure that there is."""


class Corpus(Metric):
    """A measure of all pairs of prediction and reference at once.

    A sample's value is (its number, 1): a part of the samples, as an interval's resamples are, is measured anew.
    """

    def __init__(self) -> None:
        self._pairs: list[Pair] = []

    def __repr__(self) -> str:
        """Show the class alone: the pairs are no settings."""
        return f"{type(self).__name__}()"

    def figures(self, pairs: Sequence[Pair]) -> Mapping[str, float]:
        """Measure these."""
        raise NotImplementedError

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value]:
        """Keep the pair."""
        target = None if sample.target is None else reference(sample.target)
        self._pairs.append((answer, target, sample.fields))
        return dict.fromkeys(self.names, (float(len(self._pairs) - 1), 1.0))

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Value]:
        """Keep a pair that belongs to no run."""
        self._pairs.append((prediction, reference, {}))
        return dict.fromkeys(self.names, (float(len(self._pairs) - 1), 1.0))

    def reduce(self, name: str, values: Sequence[Value]) -> float:
        """Measure the samples whose values these are."""
        places = [value for value in values if isinstance(value, tuple)]
        if any(place[1] != 1.0 for place in places):  # somebody summed them, which tells nothing of a corpus
            return NO_FIGURE
        figures = self.figures([self._pairs[int(place[0])] for place in places])
        if name not in figures:
            raise DataError(f"{type(self).__name__} gives no {name!r} for {len(places)} of the samples")
        return float(figures[name])


class Mcc(Corpus):
    """Matthews' correlation of predicted and true labels, times 100."""

    name = "MCC"

    def figures(self, pairs: Sequence[Pair]) -> Mapping[str, float]:
        """Correlate: ``(c·s - Σ tₖpₖ) / √((s² - Σ pₖ²)(s² - Σ tₖ²))``."""
        said, truth = [str(p) for p, _, _ in pairs], [str(t) for _, t, _ in pairs]
        size, right = len(pairs), sum(a == b for a, b in zip(said, truth, strict=True))
        labels = {*said, *truth}
        p, t = ([column.count(label) for label in labels] for column in (said, truth))
        spread = (size**2 - sum(x * x for x in p)) * (size**2 - sum(x * x for x in t))
        agreed = right * size - sum(x * y for x, y in zip(p, t, strict=True))
        return {self.name: 100 * agreed / math.sqrt(spread) if spread else 0.0}


class AucRoc(Corpus):
    """Area under the curve of the second option's probability against the true label, and accuracy."""

    name = "AUC"

    @property
    def names(self) -> tuple[str, ...]:
        """AUC and Accuracy."""
        return ("AUC", "Accuracy")

    def figures(self, pairs: Sequence[Pair]) -> Mapping[str, float]:
        """Rank the probabilities."""
        for said, _, _ in pairs:
            if not isinstance(said, (list, tuple)):
                raise DataError("AUCROCEvaluator needs probabilities", hint="Use it with CLPInferencer.")
        chances = [float(said[1]) for said, _, _ in pairs]
        truth = [int(t) for _, t, _ in pairs]
        above = [x for x, t in zip(chances, truth, strict=True) if t == 1]
        below = [x for x, t in zip(chances, truth, strict=True) if t != 1]
        won = sum((x > y) + 0.5 * (x == y) for x in above for y in below)
        best = [max(range(len(said)), key=lambda i, said=said: float(said[i])) for said, _, _ in pairs]  # type: ignore[misc]
        right = sum(b == t for b, t in zip(best, truth, strict=True))
        area = 100 * won / (len(above) * len(below)) if above and below else 50.0
        return {"AUC": area, "Accuracy": 100 * right / len(pairs)}


class OwnEvaluator(Corpus):
    """An evaluator that the config itself defines: its ``score`` sees all predictions, in the confined process."""

    def __init__(self, own: Own, options: Mapping[str, Any]) -> None:
        super().__init__()
        self._own, self._options = own, dict(options)
        self._names: tuple[str, ...] = ()
        self._seen: dict[tuple[int, ...], Mapping[str, float]] = {}
        self.name = own.__name__

    @property
    def names(self) -> tuple[str, ...]:
        """What its ``score`` reports, known once it has scored something."""
        return self._names

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value]:
        """Keep the pair; the first one shows what is reported."""
        target = None if sample.target is None else reference(sample.target)
        if not self._names:
            self._names = tuple(self.figures([(answer, target, sample.fields)]))
        return super().score(sample, answer)

    def figures(self, pairs: Sequence[Pair]) -> Mapping[str, float]:
        """Call its ``score``, asking again only for what was not asked before."""
        key = tuple(id(pair) for pair in pairs)
        if key not in self._seen:
            said, truth, rows = ([pair[i] for pair in pairs] for i in range(3))
            plain = [list(each) if isinstance(each, tuple) else each for each in said]
            found = self._own.method(
                self._options, "score", predictions=plain, references=truth, test_set=[dict(row) for row in rows]
            )
            if not isinstance(found, Mapping):
                raise DataError(f"{self.name}.score returned {type(found).__name__}, not a dict of figures")
            figures = {k: float(v) for k, v in found.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
            if not figures:
                raise DataError(
                    f"{self.name}.score returned no figures, only: {', '.join(map(str, found)) or 'nothing'}"
                )
            self._seen[key] = figures
        return self._seen[key]
