"""Evaluators of a home, which see all predictions at once and run in its confined worker."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kshot.configs.corpus_metrics import CorpusMetric, ScoredPair, pair_number
from kshot.configs.evaluators.scores import SeesRows
from kshot.configs.home import Home
from kshot.configs.scope import Name
from kshot.core.errors import DataError
from kshot.core.records import Sample, Value, reference
from kshot.statistics.figures import NO_FIGURE

_RESAMPLE_SECONDS = 20.0
"""How long the evaluator may work on resamples, which give the intervals of figures that are no means."""
_MAX_PROBED = 2000
_CORRECT = ("correct", "is_correct", "cascade_correct", "score")
"""What evaluators call the part of a sample in the figure, where they tell it."""


class HomeEvaluator(SeesRows, CorpusMetric):
    """An evaluator of a home.

    Its names are found out beforehand, with the references in place of predictions: whether it works is known before a
    model is asked. Where it tells what each sample got and a figure is the mean of that, intervals need no more calls.
    """

    def __init__(self, home: Home, name: Name, options: Mapping[str, Any]) -> None:
        super().__init__()
        self.name = name.last
        self._home, self._whole, self._options = home, name.whole, dict(options)
        self._names: tuple[str, ...] = ()
        self._known: dict[tuple[int, ...], Mapping[str, float]] = {}
        self._single: dict[str, dict[int, float]] = {}
        self._spent = 0.0

    def __repr__(self) -> str:
        """Show whose it is, and its options."""
        return f"HomeEvaluator({self._whole!r}, {self._options!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """The figures that it reports."""
        return self._names

    def see(self, samples: Iterable[Sample]) -> None:
        """Score the references themselves, to learn the names of the figures."""
        given = [(sample, None if sample.target is None else reference(sample.target)) for sample in samples]
        pairs = [
            (gold if isinstance(gold, str) else str(gold), gold, sample.fields) for sample, gold in given[:_MAX_PROBED]
        ]
        self._names = tuple(self._measured(pairs)[0])

    def figures(self, pairs: Sequence[ScoredPair]) -> Mapping[str, float]:
        """Let it score the pairs, once for the same ones."""
        key = tuple(id(pair) for pair in pairs)  # all of them are kept, so no number is used again
        if key not in self._known:
            resample, begun = self._is_resample(key), time.monotonic()
            if resample and self._spent > _RESAMPLE_SECONDS:
                return dict.fromkeys(self._names, NO_FIGURE)  # a figure without an interval
            found, singles = self._measured(pairs) if len(pairs) > 1 else (self._alone(pairs), None)
            self._spent += time.monotonic() - begun if resample else 0.0
            if resample:  # a category may be missing in it
                found = {**dict.fromkeys(self._names, NO_FIGURE), **found}
            self._known[key] = found
            if singles is not None:
                self._note_means(pairs, found, singles)
        return self._known[key]

    def reduce(self, name: str, values: Sequence[Value]) -> float:
        """Measure samples: by the mean of what each got, where that is the figure, else by scoring them anew."""
        single = self._single.get(name)
        if single is not None:
            numbers = [int(value[0]) for value in values if isinstance(value, tuple)]
            if all(number in single for number in numbers):
                return math.fsum(single[number] for number in numbers) / len(numbers)
        return super().reduce(name, values)

    def _measured(self, pairs: Sequence[ScoredPair]) -> tuple[dict[str, float], list[float] | None]:
        predictions, references, rows = ([pair[i] for pair in pairs] for i in range(3))
        found = self._home.evaluate(
            self._whole, self._options, predictions=predictions, references=references, rows=rows
        )
        figures = dict(_numbers(found))
        if not figures:
            raise DataError(f"{self.name} returned no figures, only: {', '.join(map(str, found)) or 'nothing'}")
        return figures, _singles(found.get("details"), len(pairs))

    def _alone(self, pairs: Sequence[ScoredPair]) -> dict[str, float]:
        """Return the figures of one sample alone, for its row; those that need others have none."""
        try:
            found, _ = self._measured(pairs)
        except DataError:
            if len(self._pairs) == 1:  # it is the only sample there is so far
                raise
            found = {}
        return {name: found.get(name, NO_FIGURE) for name in self._names}

    def _is_resample(self, key: tuple[int, ...]) -> bool:
        """Whether pairs are drawn with repetition from all: such a figure only serves an interval."""
        return len(set(key)) < len(key) and sorted(key) != sorted(id(kept.pair) for kept in self._pairs)

    def _note_means(self, pairs: Sequence[ScoredPair], figures: Mapping[str, float], singles: Sequence[float]) -> None:
        """Keep what each sample got, for every figure that is its mean."""
        average = math.fsum(singles) / len(singles)
        numbers = [pair_number(pair) for pair in pairs]
        for name, value in figures.items():
            for scale in (1.0, 100.0):
                if math.isclose(average * scale, value, rel_tol=1e-9, abs_tol=1e-9):
                    self._single[name] = {number: each * scale for number, each in zip(numbers, singles, strict=True)}


def _numbers(found: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, float]]:
    """Yield the figures of a result: its numbers, and those of dicts in it under both names."""
    for name, value in found.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if math.isfinite(value):
                yield f"{before}{name}", float(value)
        elif isinstance(value, Mapping) and not before and name != "details" and len(value) <= _MAX_PROBED:
            yield from _numbers(value, f"{name}/")


def _singles(details: Any, size: int) -> list[float] | None:
    """Return what each sample got; None where the evaluator does not tell."""
    listed = list(details.values()) if isinstance(details, Mapping) else details
    if not isinstance(listed, list) or len(listed) != size or not size:
        return None
    for key in _CORRECT:
        values = [each.get(key) if isinstance(each, Mapping) else None for each in listed]
        numbers = [float(value) for value in values if isinstance(value, (bool, int, float))]
        if len(numbers) == size:
            return numbers
    return None
