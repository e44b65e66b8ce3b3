"""Evaluators of a config or of a home: they see all predictions at once, and run in a confined process."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from kshot.configs.evaluators.scores import CorpusMetric, ScoredPair, SeesRows, gold_of
from kshot.configs.home import Home
from kshot.configs.names import ConfigCallable
from kshot.configs.scope import Name, located
from kshot.core.errors import DataError
from kshot.core.metric import Observation
from kshot.core.records import AskFailed, Row, Sample
from kshot.sandbox.guest import SETUP_FAULTS, GuestFault

_MAX_RESAMPLES, _MAX_DRAWS, _MIN_RESAMPLES = 200, 200_000, 50
"""How many resamples are scored for the intervals of figures that are no means, and how many samples in all of them.

Where fewer would be scored than the least, there are no intervals. The clock has no say: a run gives the same twice.
"""
_FINAL_FAULTS = SETUP_FAULTS | {"TooSlow", "NoAnswer", "MemoryError"}
"""Faults that other answers would not mend, or that took all the time there is."""
_MAX_FIGURES, _MAX_NAME_LETTERS = 500, 1000
_MAX_PROBED = 2000
_MOST_PARTS = 100
"""The most details with names of their own (as of the programs in a reply) for each sample."""
_PROMPT = "$prompt"
"""The column in which a row carries its prompt to the evaluator."""
_CORRECT = ("correct", "is_correct", "cascade_correct", "score")
"""What evaluators call the part of a sample in the figure, where they tell it."""


class Called(CorpusMetric):
    """Figures that a function makes of all pairs; their names are known once it has been called."""

    def __init__(self, name: str, call: Callable[[Sequence[ScoredPair]], Any], what: str = "") -> None:
        """``what`` is called, for messages."""
        self.name, self._call, self._what = name, call, what or name

    def observed(self, pair: ScoredPair) -> Mapping[str, Any]:
        """Return a pair; the first one shows which names are reported, where nothing did before."""
        self.names = self.names or tuple(self.figures([pair]))
        return super().observed(pair)

    def figures(self, pairs: Sequence[ScoredPair]) -> Mapping[str, float]:
        """Call the function."""
        found = self._call(pairs)
        if not isinstance(found, Mapping):
            raise DataError(f"{self._what} returned {type(found).__name__}, not a dict of figures")
        figures = {k: float(v) for k, v in found.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
        if not figures:
            raise DataError(f"{self._what} returned no figures, only: {', '.join(map(str, found)) or 'nothing'}")
        return figures


def config_evaluator(evaluator: ConfigCallable, options: Mapping[str, Any]) -> Called:
    """Return an evaluator that the config defines: its ``score`` sees all predictions, in the confined process."""

    def score(pairs: Sequence[ScoredPair]) -> Any:
        predictions, references, rows = ([pair[i] for pair in pairs] for i in range(3))
        plain = [list(each) if isinstance(each, tuple) else each for each in predictions]
        given = {"predictions": plain, "references": references, "test_set": [dict(row) for row in rows]}
        return evaluator.method(dict(options), "score", **given)

    return Called(evaluator.__name__, score, f"{evaluator.__name__}.score")


class HomeEvaluator(SeesRows, CorpusMetric):
    """An evaluator of a home.

    Its names are found out beforehand, with the references in place of predictions: whether it works is known before a
    model is asked. Where it tells what each sample got and a figure is the mean of that, intervals need no more calls.
    """

    def __init__(self, home: Home, name: Name, options: Mapping[str, Any], where: str = "") -> None:
        """``where``: the config and the entry, for messages."""
        self.name, self._where = name.last, where
        self._home, self._whole, self._options = home, name.whole, dict(options)
        self._scored: list[bytes] = []
        self._single: dict[str, dict[bytes, float]] = {}
        self._resamples = self._size = 0
        self.prompt_of: Callable[[Sample], Any] | None = None
        """Gives the prompt of a sample, for an evaluator that wants to see it."""
        self.answer_of: Callable[[Sample, str], Any] = lambda _, text: text
        """Makes the answer to a sample of a text that a model might say: the clean-ups of the entry."""

    def __repr__(self) -> str:
        """Show whose it is, and its options."""
        return f"HomeEvaluator({self._whole!r}, {self._options!r})"

    @property
    def wants_prompts(self) -> bool:
        """Whether the evaluator has a parameter for the prompts."""
        return self._home.wants_prompts(self._whole)

    def see(self, samples: Iterable[Sample]) -> None:
        """Score the references themselves, and then empty replies, to learn the names of the figures."""
        shown = list(islice(samples, _MAX_PROBED))
        self._size = len(shown)
        given = [(sample, gold_of(sample)) for sample in shown]
        try:
            names = self._figure_names([self._probe(sample, gold) for sample, gold in given])
        except GuestFault as exc:
            if exc.kind in _FINAL_FAULTS:
                raise
            names = self._figure_names([self._scored_pair(sample, gold, str(gold)) for sample, gold in given])
        with suppress(DataError):  # it may want replies of a form that these have not
            names |= self._figure_names([self._scored_pair(sample, gold, "") for sample, gold in given])
        self.names = tuple(names)

    def _figure_names(self, pairs: Sequence[ScoredPair]) -> dict[str, None]:
        """Return the names of the figures of answers that are not a model's."""
        return dict.fromkeys(self._measured(pairs, tried=True)[0])

    def _probe(self, sample: Sample, gold: Any) -> ScoredPair:
        """Return what would be scored if a model said the reference; one that cannot be cleaned up stays as it is."""
        try:
            answer = self.answer_of(sample, str(gold))
        except (AskFailed, DataError, ValueError, LookupError, TypeError, AttributeError):
            answer = str(gold)
        return self._scored_pair(sample, gold, answer)

    def _scored_pair(self, sample: Sample, gold: Any, answer: Any) -> ScoredPair:
        return answer, gold, self._row(sample)

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:
        """Return the pair, with the prompt where the evaluator wants it."""
        pair = Observation((answer, gold_of(sample), self._row(sample)))
        self._scored.append(pair.place)
        return dict.fromkeys(self.names, pair)

    def _row(self, sample: Sample) -> Row:
        return sample.fields if self.prompt_of is None else {**sample.fields, _PROMPT: self.prompt_of(sample)}

    def figure(self, name: str, values: Sequence[Observation]) -> float | None:
        """Measure samples: by the mean of what each got, where that is the figure, else by scoring them anew."""
        single = self._single.get(name)
        if single is not None and all(value.place in single for value in values):
            return math.fsum(single[value.place] for value in values) / len(values)
        return super().figure(name, values)

    def measured(self, values: Sequence[Observation]) -> Mapping[str, float | None]:
        """Let it score the pairs; a figure that it does not give for them is none."""
        pairs, places = [value.content for value in values], [value.place for value in values]
        none: dict[str, float | None] = dict.fromkeys(self.names)
        if len(pairs) == 1:
            return none | self._alone(pairs)
        # pairs that are drawn with repetition from all: such a figure only serves an interval
        drawn = len(set(places)) < len(places) and sorted(places) != sorted(self._scored)
        if drawn:
            most = min(_MAX_RESAMPLES, _MAX_DRAWS // len(pairs))
            self._resamples += 1
            if most < _MIN_RESAMPLES or self._resamples > most:
                return none
        try:
            found, singles = self._measured(pairs)
        except DataError as exc:
            if not drawn or (isinstance(exc, GuestFault) and exc.kind in _FINAL_FAULTS):
                raise
            return none  # a resample has no figures where the evaluator fails on it
        if singles is not None:
            self._note_means(places, found, singles)
        return none | dict(found)

    def _measured(
        self, pairs: Sequence[ScoredPair], *, tried: bool = False
    ) -> tuple[dict[str, float | None], list[float] | None]:
        """Return the figures of these pairs, None where one is no finite number, and what each sample got.

        ``tried``: the answers are not a model's, so that none of the figures need be finite.
        """
        predictions, references, rows = ([pair[i] for pair in pairs] for i in range(3))
        with located(self._where):
            found = self._home.evaluate(
                self._whole,
                self._options,
                predictions=predictions,
                references=references,
                rows=[{name: value for name, value in row.items() if name != _PROMPT} for row in rows],
                prompts=None if self.prompt_of is None else [row.get(_PROMPT) for row in rows],
            )
            figures = dict(_numbers(found))
            if len(figures) > _MAX_FIGURES:
                raise DataError(f"{self.name} returned {len(figures):,} figures; {_MAX_FIGURES} are the most")
            longest = max(figures, key=len, default="")
            if len(longest) > _MAX_NAME_LETTERS:
                what = f"{self.name} returned a figure whose name has {len(longest):,} letters, {longest!r:.60}…"
                raise DataError(f"{what}; {_MAX_NAME_LETTERS:,} are the most")
            if not figures or (not tried and all(value is None for value in figures.values())):
                raise DataError(f"{self.name} returned no figures, only: {', '.join(map(str, found)) or 'nothing'}")
            self._check_details(found.get("details"), len(pairs))
        return figures, _singles(found.get("details"), len(pairs))

    def _check_details(self, details: Any, size: int) -> None:
        """Raise DataError unless there is one detail for each sample, or none, or parts by name."""
        if not isinstance(details, (list, Mapping)) or not details:
            return
        numbered = isinstance(details, list) or all(str(key).isdecimal() for key in details)
        if len(details) != size if numbered else len(details) > _MOST_PARTS * size:
            what = f"{self.name} returned the details of {len(details):,} samples, and was given {size:,}"
            hint = "An evaluator gives one detail for each prediction, in their order, or no details."
            raise DataError(what, hint=hint)

    def _alone(self, pairs: Sequence[ScoredPair]) -> dict[str, float | None]:
        """Return the figures of one sample alone, for its row; those that need others have none."""
        try:
            found, _ = self._measured(pairs)
        except DataError:
            if self._size == 1:  # it is the only sample that there is
                raise
            found = {}
        return {name: found.get(name) for name in self.names}

    def _note_means(
        self, places: Sequence[bytes], figures: Mapping[str, float | None], singles: Sequence[float]
    ) -> None:
        """Keep what each sample got, for every figure that is its mean."""
        average = math.fsum(singles) / len(singles)
        for name, value in figures.items():
            for scale in (1.0, 100.0):
                if value is not None and math.isclose(average * scale, value, rel_tol=1e-9, abs_tol=1e-9):
                    self._single[name] = {place: each * scale for place, each in zip(places, singles, strict=True)}


def _numbers(found: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, float | None]]:
    """Yield the figures of a result: its numbers, and those of dicts in it under both names."""
    for name, value in found.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield f"{before}{name}", _finite(value)
        elif isinstance(value, Mapping) and not before and name != "details" and len(value) <= _MAX_PROBED:
            yield from _numbers(value, f"{name}/")


def _finite(value: Any) -> float | None:
    """Return a value as a finite number; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond all floats
        return None
    return number if math.isfinite(number) else None


def _singles(details: Any, size: int) -> list[float] | None:
    """Return what each sample got; None where the evaluator does not tell."""
    listed = list(details.values()) if isinstance(details, Mapping) else details
    if not isinstance(listed, list) or len(listed) != size or not size:
        return None
    for key in _CORRECT:
        values = [each.get(key) if isinstance(each, Mapping) else None for each in listed]
        numbers = [
            number
            for value in values
            if (number := _finite(int(value) if value is True or value is False else value)) is not None
        ]
        if len(numbers) == size:
            return numbers
    return None
