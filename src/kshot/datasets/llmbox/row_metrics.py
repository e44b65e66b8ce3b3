"""LLMBox's metrics whose reference is a whole row: IFEval and Gaokao."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from kshot.core.errors import DataError
from kshot.core.metric import Measure
from kshot.metrics import Metric
from kshot.metrics.aggregates import SHARE
from kshot.metrics.instruction_checks import follows, loose_forms
from kshot.metrics.metric import PERCENT
from kshot.metrics.references import best_over_references


class ShareOfPoints(Metric):
    """Points of all samples as a share of the points that could be had; a subclass says what one sample has."""

    @property
    def measures(self) -> Sequence[Measure]:
        """The share of the summed points."""
        return (Measure(self.name, SHARE, PERCENT),)

    def points(self, prediction: Any, row: Mapping[str, Any]) -> tuple[float, float]:
        """Return the points of one prediction, and the possible ones."""
        raise NotImplementedError

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, tuple[float, float]]:
        """Return the points of one prediction, and the possible ones, under the name of the metric."""
        if not isinstance(reference, Mapping):
            raise DataError(f"{self.name} needs the row as its reference, not {type(reference).__name__}")
        try:
            return {self.name: self.points(prediction, reference)}
        except KeyError as exc:
            raise DataError(
                f"{self.name} wants the column {exc.args[0]!r}; the row has: {', '.join(reference)}"
            ) from exc


class IFEval(ShareOfPoints):
    """Share of the instructions that replies follow; ``loose`` also looks at a reply without its first or last line."""

    name = "IFEval"

    def __init__(self, type: Literal["strict", "loose"] = "strict") -> None:  # noqa: A002 - LLMBox's name
        if type not in {"strict", "loose"}:
            raise DataError(f"IFEval has the type {type!r}", hint="It is 'strict' or 'loose'.")
        self.type = type
        self.name = f"IFEval:{type}"

    def points(self, prediction: Any, row: Mapping[str, Any]) -> tuple[float, float]:
        """Return how many of the row's instructions a reply follows, and their number."""
        forms = loose_forms(str(prediction)) if self.type == "loose" else (str(prediction),)
        asked = list(zip(row["instruction_id_list"], row["kwargs"], strict=True))
        followed = sum(any(follows(name, options or {}, form) for form in forms) for name, options in asked)
        return float(followed), float(len(asked))


_PARTS = {"multi_mcqs", "seven_option", "multi_question_choice", "five_out_of_seven"}
_ONE_LETTER = {"single_answer_mcq", "single_choice"}
"""The kinds of question (``task``) of gaokao.py, today's names and older ones. In others several letters are right."""


class GaokaoBenchMetric(ShareOfPoints):
    """The points of an exam: each row has ``score`` points for each of its answers.

    The reference is a row, or a list of rows of which the best counts. Where several letters are right, some of them
    and no wrong one have half of the points. A row without a ``task`` is read by the number of its answers.
    """

    name = "GaokaoBench"

    def __init__(self, multiref_strategy: Literal["none", "max", "leave_one_out"] = "none") -> None:
        self.multiref_strategy = multiref_strategy

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, tuple[float, float]]:
        """Return the best points over the rows of a reference; those that could be had are the first row's."""
        if not isinstance(reference, list | tuple) or not reference:
            return super().rate(prediction, reference)
        rated = [super(GaokaoBenchMetric, self).rate(prediction, row)[self.name] for row in reference]
        strategy = "leave_one_out" if self.multiref_strategy == "leave_one_out" else "max"
        return {self.name: (best_over_references(lambda pair: float(pair[0]), rated, strategy), rated[0][1])}

    def points(self, prediction: Any, row: Mapping[str, Any]) -> tuple[float, float]:
        """Return the points of the letters that were given."""
        answer, score, task = row["answer"], row.get("score"), row.get("task")
        right = [str(each) for each in (list(answer) if isinstance(answer, (list, tuple)) else [answer])]
        points = 1.0 if score is None else float(score)
        if task is None:
            given = _parts(prediction, len(right))
            reached = sum(_reached(mine, letters, points) for mine, letters in zip(given, right, strict=False))
        else:
            reached = points * _reached_by_task(list(map(str, prediction)), right, str(task))
        return reached, points * len(right)


def _reached_by_task(given: Sequence[str], right: Sequence[str], task: str) -> float:
    """Return for how many answers LLMBox gives the points of one."""
    if task in _PARTS:
        return float(sum(mine == letter for mine, letter in zip(given, right, strict=False)))
    if not given or not right:
        return 0.0
    if task in _ONE_LETTER:
        return float(given[0] == right[0])
    if not set(given[0]) <= set(right[0]):
        return 0.0
    return 1.0 if len(given[0]) == len(right[0]) else 0.5


def _parts(prediction: Any, count: int) -> list[str]:
    """Return the answers to the parts of a question: a list, or the letters of one text."""
    if not isinstance(prediction, str):
        return [str(each) for each in prediction]
    return [prediction.strip()] if count == 1 else [letter for letter in prediction if letter.isalpha()]


def _reached(given: str, right: str, points: float) -> float:
    if given == right:
        return points
    return points / 2 if given and len(right) > 1 and set(given) < set(right) else 0.0
