"""The standard measures of a ranking against graded ids (qrels), computed by ir_measures on pytrec-eval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from kshot.core.errors import DataError
from kshot.core.extras import require
from kshot.core.metric import Measure
from kshot.core.records import Graded, Sample
from kshot.metrics.measures import RR, RankingMeasure, checked_measures, nDCG
from kshot.metrics.metric import Metric

PACKAGES = ("ir-measures", "pytrec-eval-terrier")
"""The packages of kshot's extras that compute the measures."""

_QUESTION_ID = "q"


class Relevance(Metric):
    """nDCG, AP (MAP), P, R and RR (MRR) of a list of ids, best first, against graded ids; grades from 1 are relevant.

    The values are those of trec_eval: the gain of nDCG is the grade itself, P@k divides by k even if there are fewer
    ids, and R@k and AP divide by the number of relevant ids. The order of the list is the ranking, so there are no
    ties. A question with an empty list, or without a relevant id, has the value 0 and counts.
    """

    def __init__(self, measures: Iterable[RankingMeasure | str] = (nDCG @ 10,)) -> None:
        ranking = checked_measures(measures, evidence=False)
        self._measures = tuple(measure.reported for measure in ranking)
        # pytrec-eval has no RR@k: the cutoff is applied to RR
        self._plan = {str(m): (RR if m.name == RR.name else m, m.cutoff) for m in ranking}
        self._computed = tuple(dict.fromkeys(str(measure) for measure, _ in self._plan.values()))

    @property
    def measures(self) -> Sequence[Measure]:
        """Those that were asked for."""
        return self._measures

    def score(self, sample: Sample, answer: Any) -> Mapping[str, float]:
        """Rate the ranking of a sample against its grades."""
        if not isinstance(sample.target, Graded):
            raise DataError("the question has no graded ids", hint="Give it a target: Graded({id: grade}).")
        return self.rate(answer, sample.target.grades)

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, float]:
        """Rate a list of ids, best first, against id → grade."""
        if not isinstance(prediction, list | tuple) or not all(isinstance(each, str) for each in prediction):
            raise DataError(f"an answer must be a list of ids, best first, not {prediction!r:.80}")
        if len(set(prediction)) < len(prediction):
            twice = next(each for each in prediction if prediction.count(each) > 1)
            raise DataError(f"{twice!r} is in the ranking twice", hint="Keep each id's best place.")
        if not isinstance(reference, Mapping):
            raise DataError(f"the reference must map ids to grades, not {reference!r:.80}")
        values = self._values(prediction, reference)
        return {
            name: self._cut(values[str(measure)], cutoff) if measure is RR else values[str(measure)]
            for name, (measure, cutoff) in self._plan.items()
        }

    def _values(self, ranking: Iterable[str], grades: Mapping[str, int]) -> Mapping[str, float]:
        """Compute the measures, with the relevant ids renamed to numbers.

        An evaluator takes long to make; with numbers for ids one evaluator serves all questions of the same grades. Ids
        that are not relevant count as unjudged: pytrec-eval does not terminate where all grades are negative.
        """
        relevant = sorted((-grade, each) for each, grade in grades.items() if grade > 0)
        evaluator = _evaluator(self._computed, tuple(-grade for grade, _ in relevant))
        numbers = {each: str(number) for number, (_, each) in enumerate(relevant)}
        # falling scores: trec_eval would order equal ones by id
        run = {numbers.get(each, f"-{rank}"): -float(rank) for rank, each in enumerate(ranking)}
        return {str(value.measure): value.value for value in evaluator.iter_calc({_QUESTION_ID: run})}

    @staticmethod
    def _cut(reciprocal: float, cutoff: int | None) -> float:
        return reciprocal if reciprocal and (cutoff is None or round(1 / reciprocal) <= cutoff) else 0.0

    def __repr__(self) -> str:
        """Show the measures."""
        return f"Relevance({', '.join(self._plan)})"


@lru_cache(maxsize=4096)
def _evaluator(measures: tuple[str, ...], grades: tuple[int, ...]) -> Any:
    require("scoring against graded ids (qrels)", *PACKAGES)
    import ir_measures

    qrels = {_QUESTION_ID: {str(number): grade for number, grade in enumerate(grades)}}
    return ir_measures.pytrec_eval.evaluator([ir_measures.parse_measure(name) for name in measures], qrels)
