"""What makes figures of a judge's replies: the ``dict_postprocessor`` that a config names, else kshot's own reading."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kshot.configs.evaluators import judge_grades
from kshot.configs.evaluators.foreign import Called
from kshot.configs.evaluators.judge_grades import Groups, Reading, by_difficulty, told
from kshot.configs.evaluators.scores import Counts, Points, RightOrWrong, ScoredPair, SeesRows, gold_of
from kshot.configs.names import ConfigCallable, merged, short
from kshot.configs.scope import Scope, located
from kshot.core.errors import DataError
from kshot.core.records import AskFailed, Failed, Row, Sample
from kshot.metrics import Metric
from kshot.metrics.judge_replies import parse_rating
from kshot.sandbox.guest import SETUP_FAULTS, GuestFault

# ---- comparisons with a base model: win rates ----
# The answer that these metrics score is the judge's reply; the reference says whose answers it saw first and second
# (answer1, answer2). A reply without a verdict is left out.

_VERDICT = re.compile(r"\[\[([AB<>=]+)\]\]")
_FOR_FIRST = {"A>>B": 1.0, "B<<A": 1.0, "A>B": 0.5, "B<A": 0.5, "A=B": 0.0, "B=A": 0.0}
_FOR_FIRST |= {"A<B": -0.5, "B>A": -0.5, "A<<B": -1.0, "B>>A": -1.0}
"""What a verdict is worth for the answer that the judge saw first; -1 is as much for the second one."""


_PARTS = 3
"""What is counted in each group: points if one model is the base, points if the other is, verdicts."""


class Wins(Groups):
    """Points of the compared model against the base model, in percent, by groups of the rows.

    ``verdict`` reads a reply: from 1 for the answer that the judge saw first to -1 for the second; None where it says
    nothing. ``points``: those of the compared model for a verdict that is worth so much for it. ``weight``: how often a
    verdict counts. ``bases``: the base models where the reference does not name any; without these it is the first one
    of the first row.
    """

    def __init__(
        self,
        verdict: Callable[[str], float | None],
        groups: Callable[[Any], Sequence[str]] = lambda gold: [str(told(gold, "capability"))],
        points: Callable[[float], float] = lambda verdict: float(verdict > 0),
        *,
        weight: Callable[[float], int] = lambda _: 1,
        total: str = "total",
        digits: int = 2,
        bases: Sequence[str] = (),
    ) -> None:
        super().__init__(lambda gold: [total, *groups(gold)])
        self.total, self.digits, self.bases = total, digits, bases
        self._verdict, self._points, self._weight = verdict, points, weight
        self._first, self._told = "", {}  # type: str, dict[int, str]

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the groups that there are, and the model whose answer comes first in the first row."""
        given = list(samples)
        for gold in map(gold_of, given):
            if not isinstance(gold, Mapping) or "answer1" not in gold:
                raise DataError(
                    "the judge is to compare answers with those of a base model, and the config names none",
                    hint="Name the folder of its replies: given_pred=[dict(abbr=…, path=…)].",
                )
            self._first = self._first or str(gold["answer1"])
        super().see(given)

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Add the points and 1 in each of the row's groups; the points for both cases of which model is the base."""
        gold, verdict = gold_of(sample), self._verdict(str(answer))
        if verdict is None:
            return (0.0,) * (_PARTS * len(self.groups))
        self._told.setdefault(sample.position, str(told(gold, "answer1")))
        points = [self._points(-verdict if base_first else verdict) for base_first in self._base_first(gold)]
        times = self._weight(verdict)
        return tuple(each * held * times for held in self.held(gold) for each in (*points, 1.0))

    def _base_first(self, gold: Any) -> tuple[bool, bool]:
        """Whether the base model's answer came first: if the base is the first model of the first row, and if not."""
        named = gold.get("base_models") if isinstance(gold, Mapping) else None
        bases = [named] if isinstance(named, str) else list(named or self.bases)
        if bases:
            return (told(gold, "answer1") in bases,) * 2
        first = str(told(gold, "answer1")) == self._first
        return first, not first

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the points in percent of the verdicts. The base is the first model of the first row with a verdict."""
        other = bool(self._told) and self._told[min(self._told)] != self._first
        groups = zip(self.groups, sums[int(other) :: _PARTS], sums[2::_PARTS], strict=True)
        return {name: round(100 * points / count, self.digits) for name, points, count in groups if count}


def alpaca_verdict(reply: str) -> float | None:
    """Read the first letter: ``m`` stands for the first answer, ``M`` for the second."""
    return {"m": 1.0, "M": -1.0}.get(reply[:1])


def marked_verdict(reply: str) -> float | None:
    """Read what stands between double brackets."""
    found = _VERDICT.search(reply)
    return _FOR_FIRST.get(found[1]) if found else None


def arena_verdict(reply: str) -> float | None:
    """Read ``Choice: A``, ``B``, or ``C`` for a tie."""
    found = re.search("(?:选择：|Choice: )([ABC])", reply)
    return {"A": 1.0, "B": -1.0, "C": 0.0}[found[1]] if found else None


class ArenaWins(Wins):
    """CompassArena: a tie is worth nothing to either, or half a win to both where the config says ``half_add``.

    ``position_bias`` counts replies that choose the same place as the first reply to the same question.
    """

    def __init__(self, summary_type: str = "single", check_pos_bias: bool = True) -> None:  # noqa: FBT001, FBT002 - options of configs
        tie = 0.5 if summary_type == "half_add" else 0.0
        super().__init__(
            arena_verdict, points=lambda verdict: float(verdict > 0) if verdict else tie, total="position_bias"
        )
        self.check_pos_bias = check_pos_bias
        self._chosen: dict[str, float] = {}

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the groups; the number of questions with a bias comes last."""
        super().see(samples)
        self.names = (*(name for name in self.groups if name != self.total), self.total)

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Add the points in the row's group, and whether the judge chose the same place before."""
        added = list(super().counts(sample, answer))
        verdict, place = arena_verdict(str(answer)), self.groups.index(self.total)
        biased = False
        if self.check_pos_bias and verdict is not None:
            question = str(told(gold_of(sample), "question"))
            biased = question in self._chosen and self._chosen[question] == verdict != 0
            self._chosen.setdefault(question, verdict)
        added[_PARTS * place : _PARTS * (place + 1)] = [float(biased), float(biased), 0.0]
        return tuple(added)

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the win rates, and the number of biased questions."""
        rates = {name: rate for name, rate in super().figures(sums).items() if name != self.total}
        return {**rates, self.total: sums[_PARTS * self.groups.index(self.total)]}


_WILD_GROUPS = {
    "Information seeking": "Information/Advice seeking",
    "Advice seeking": "Information/Advice seeking",
    "Coding & Debugging": "Coding & Debugging",
    "Reasoning": "Planning & Reasoning",
    "Planning": "Planning & Reasoning",
    "Math": "Math & Data Analysis",
    "Data Analysis": "Math & Data Analysis",
    **dict.fromkeys(("Creative Writing", "Editing", "Brainstorming", "Role playing", "Others"), "Creative Tasks"),
}


class WildPoints(Wins):
    """WildBench: points from -100 to 100 by the groups of a row's tags, and the mean of the groups."""

    def __init__(self) -> None:
        bases = ("HaiKu", "gpt4-turbo", "llama-2-70b-chat-hf")
        super().__init__(wild_verdict, wild_groups, float, total="average", bases=bases)

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the points of the groups, and their mean."""
        groups = {name: value for name, value in super().figures(sums).items() if name != self.total}
        return {**groups, self.total: sum(groups.values()) / len(groups)} if groups else {}


def wild_verdict(reply: str) -> float | None:
    """Read the choice."""
    found = re.search(r'"choice": "(.*?)"', reply)
    return {"A++": 1.0, "A+": 0.5, "A=B": 0.0, "B+": -0.5, "B++": -1.0}.get(found[1]) if found else None


def wild_groups(gold: Any) -> Sequence[str]:
    """Return the group of each tag; a row counts once for each of its tags."""
    tags = [told(gold, "primary_tag"), *told(gold, "secondary_tag")]
    return [_WILD_GROUPS.get(str(tag), str(tag)) for tag in tags]


def arena_hard() -> Wins:
    """Return Arena-Hard's win rate that the ratings of the two models predict; a clear verdict counts three times.

    Between two models, the ratings that fit best predict the share of wins itself; a tie is half a win.
    """
    known = ("A=B", "A>B", "A>>B", "B>A", "B>>A")  # other forms do not count

    def verdict(reply: str) -> float | None:
        found = _VERDICT.search(reply)
        return _FOR_FIRST[found[1]] if found and found[1] in known else None

    def groups(gold: Any) -> Sequence[str]:
        told(gold, "answer1")
        return []

    return Wins(
        verdict,
        groups,
        lambda verdict: float(verdict > 0) if verdict else 0.5,
        weight=lambda verdict: 3 if abs(verdict) == 1 else 1,
        total="score",
        bases=("gpt4-0314",),
    )


_OF_PAIRS: dict[str, Reading] = {
    **dict.fromkeys(("alpacaeval_postprocess", "alpacaeval"), partial(Wins, alpaca_verdict)),
    **dict.fromkeys(("arenahard_postprocess", "arenahard"), arena_hard),
    **dict.fromkeys(("wildbench_postprocess", "wildbench"), WildPoints),
    **dict.fromkeys(("compassarena_postprocess", "compassarena"), ArenaWins),
    **dict.fromkeys(  # points from -100 to 100
        ("compassarena_subjectiveeval_pairwise_postprocess", "compassarena_subjectiveeval_pairwise"),
        partial(Wins, marked_verdict, by_difficulty, float, total="Average_score", digits=3),
    ),
}


# ---- what reads the replies ----

READINGS: dict[str, Reading] = merged(judge_grades.READINGS, _OF_PAIRS)

_LETTER = re.compile(r"(?<![A-Za-z])(A|B|C|CORRECT|INCORRECT)(?![A-Za-z])")


def reading_of(config: Any, template: Mapping[str, Any], scope: Scope) -> Metric:
    """Return what reads the replies: the function that a ``dict_postprocessor=dict(type=…)`` names, else kshot's."""
    if not config:
        # Configs have no field for it: a judge that is to rate is told the form of a rating in its template.
        rated = "rating" in repr(template).lower() and "[[" in repr(template)
        return Points("Rating", own_rating, None) if rated else own_verdict()
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


def right_verdict(prediction: Any, reference: Any) -> bool:  # noqa: ARG001 - the reply tells all
    """Whether the first verdict of a reply is A or CORRECT; a reply without any verdict is a failed sample."""
    found = _LETTER.search(str(prediction))
    if found is None:
        raise AskFailed(Failed("judge", f"neither A nor B in the judge's reply: {str(prediction)[-200:]!r}"))
    return found[1] in ("A", "CORRECT")


def own_verdict() -> Metric:
    """Return the share of right verdicts."""
    return RightOrWrong("Accuracy", right_verdict)


def own_rating(prediction: Any, reference: Any) -> float:  # noqa: ARG001 - the reply tells all
    """Return the rating in a reply; one without any is a failed sample."""
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


class CalledReading(SeesRows, Called):
    """Figures that a function of the config, or of a home, makes of all replies."""

    def __init__(self, name: str, call: Callable[[Judged, Sequence[Any]], Any]) -> None:
        def read(pairs: Sequence[ScoredPair]) -> Any:
            judged = {
                str(number): {"prediction": reply, "gold": gold, "origin_prompt": ""}
                for number, (reply, gold, _) in enumerate(pairs)
            }
            found = call(judged, [row for _, _, row in pairs])
            return {"score": found} if isinstance(found, (int, float)) and not isinstance(found, bool) else found

        super().__init__(name, read)

    def see(self, samples: Iterable[Sample]) -> None:
        """Let it read replies of many forms, to learn the names of its figures; those of real replies may join."""
        given = [(gold_of(sample), sample.fields) for sample in samples]
        names: dict[str, None] = {}
        for reply in _TYPICAL_REPLIES:
            names |= dict.fromkeys(self._tried([(reply, gold, row) for gold, row in given]))
        self.names = tuple(names)

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
