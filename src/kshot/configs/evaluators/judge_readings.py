"""What makes figures of a judge's replies: the ``dict_postprocessor`` that a config names, else kshot's own reading."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kshot.configs.evaluators import judge_grades, judge_pairs
from kshot.configs.evaluators.judge_grades import Reading
from kshot.configs.evaluators.scores import CorpusMetric, ScoredPair, SeesRows, gold_of
from kshot.configs.names import ConfigCallable, merged, short
from kshot.configs.scope import Scope, located
from kshot.core.errors import DataError
from kshot.core.records import AskFailed, Failed, Row, Sample
from kshot.metrics import Metric
from kshot.metrics.judge_replies import parse_rating
from kshot.sandbox.guest import SETUP_FAULTS, GuestFault

READINGS: dict[str, Reading] = merged(judge_grades.READINGS, judge_pairs.READINGS)

_VERDICTS = {"A": 100.0, "B": 0.0, "CORRECT": 100.0, "INCORRECT": 0.0}
_LETTER = re.compile(r"(?<![A-Za-z])(A|B|C|CORRECT|INCORRECT)(?![A-Za-z])")


def reading_of(config: Any, template: Mapping[str, Any], scope: Scope) -> Metric:
    """Return what reads the replies: the function that a ``dict_postprocessor=dict(type=…)`` names, else kshot's."""
    if not config:
        # Configs have no field for it: a judge that is to rate is told the form of a rating in its template.
        return OwnRating() if "rating" in repr(template).lower() and "[[" in repr(template) else OwnVerdict()
    body = dict(config) if isinstance(config, Mapping) else {"type": config}
    kind = body.pop("type", None)
    defined = scope.own(kind)
    if isinstance(defined, ConfigCallable):
        return CalledReading(defined.__name__, lambda judged, _: defined(judged, "", **body))
    if defined is not None:
        return CalledReading(short(kind), lambda judged, _: defined(judged, "", **body))
    name = scope.name(kind)
    make = READINGS.get(name.last)
    if make is not None:
        try:
            return make(**body)
        except TypeError as exc:
            raise DataError(f"{name.last} cannot be made: {exc}", where=scope.where) from exc
    if (home := scope.home("judge", name)) is not None:
        return CalledReading(name.last, _located(partial(home.judged, name.whole, body), scope.where))
    return scope.unknown("judge's post-processor", kind, READINGS)


def _located(judged: Callable[..., Mapping[str, Any]], where: str) -> Callable[..., Mapping[str, Any]]:
    """Return a function of replies by number, whose errors name the entry."""

    def figures(replies: Mapping[str, Any], rows: Sequence[Row]) -> Mapping[str, Any]:
        with located(where):
            return judged(list(replies.values()), rows)

    return figures


class OwnVerdict(Metric):
    """Share of replies with the verdict A or CORRECT; a reply without any verdict is a failed sample."""

    name = "Accuracy"
    bounds = (0.0, 100.0)
    binary = True

    def rate(self, prediction: Any, reference: Any, /) -> float:  # noqa: ARG002 - the reply tells all
        """Read the first verdict."""
        found = _LETTER.search(str(prediction))
        if found is None:
            raise AskFailed(Failed("judge", f"neither A nor B in the judge's reply: {str(prediction)[-200:]!r}"))
        return _VERDICTS.get(found[1], 0.0)


class OwnRating(Metric):
    """Mean of the ratings in the replies; a reply without any is a failed sample."""

    name = "Rating"

    def rate(self, prediction: Any, reference: Any, /) -> float:  # noqa: ARG002 - the reply tells all
        """Read the rating."""
        rating = parse_rating(str(prediction))
        if rating is None:
            raise AskFailed(Failed("judge", f"no rating in the judge's reply: {str(prediction)[-200:]!r}"))
        return rating


_TYPICAL_REPLIES = (
    *("A", "B", "C", "[[A]]", "[[B]]", "[[A>B]]", "[[5]]", "Rating: [[5]]", "5", "CORRECT", "INCORRECT", "yes", "no"),
    *('{"score": 1}', '{"rating": 5}', '```json\n{"score": 1, "reason": ""}\n```', "<score>5</score>", ""),
)
"""Replies of the forms that judges are asked for."""

Judged = Mapping[str, Mapping[str, Any]]
"""By number: the judge's reply (``prediction``), the reference (``gold``) and what the judge was asked about."""


class CalledReading(SeesRows, CorpusMetric):
    """Figures that a function of the config, or of a home, makes of all replies."""

    def __init__(self, name: str, call: Callable[[Judged, Sequence[Any]], Any]) -> None:
        self.name, self._call = name, call
        self._names: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it reports, known once it has read something."""
        return self._names

    def see(self, samples: Iterable[Sample]) -> None:
        """Let it read replies of many forms, to learn the names of its figures; those of real replies may join."""
        given = [(gold_of(sample), sample.fields) for sample in samples]
        names: dict[str, None] = {}
        for reply in _TYPICAL_REPLIES:
            names |= dict.fromkeys(self._tried([(reply, gold, row) for gold, row in given]))
        self._names = tuple(names)

    def _tried(self, pairs: Sequence[ScoredPair]) -> Iterable[str]:
        """Return the names that it gives for these replies; none where it wants replies of another form."""
        try:
            return self.figures(pairs)
        except GuestFault as exc:
            if exc.kind in SETUP_FAULTS:
                raise
            return ()
        except DataError:
            return ()

    def observed(self, pair: ScoredPair) -> Mapping[str, Any]:
        """Return a pair; the first one shows which names are reported, where nothing did before."""
        self._names = self._names or tuple(self.figures([pair]))
        return super().observed(pair)

    def figures(self, pairs: Sequence[ScoredPair]) -> Mapping[str, float]:
        """Call the function."""
        judged = {
            str(number): {"prediction": reply, "gold": gold, "origin_prompt": ""}
            for number, (reply, gold, _) in enumerate(pairs)
        }
        return _figures(self._call(judged, [row for _, _, row in pairs]), self.name)


def _figures(found: Any, name: str) -> dict[str, float]:
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        return {"score": float(found)}
    if not isinstance(found, Mapping):
        raise DataError(f"{name} returned {type(found).__name__}, not a dict of figures")
    figures = {k: float(v) for k, v in found.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    if not figures:
        raise DataError(f"{name} gave no figure for the judge's replies")
    return figures
