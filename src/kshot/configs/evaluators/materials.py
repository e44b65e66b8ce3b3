"""Evaluators of labels and numbers in science: genes (GUE) and materials (LLM4Mat, Matbench)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kshot.configs.corpus_metrics import CorpusMetric, ScoredPair
from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.scores import SeesRows, text_of
from kshot.configs.evaluators.tallies import Counts, Tally, gold_of, ratio
from kshot.core.errors import DataError
from kshot.core.records import Sample


def first_of(value: Any) -> Any:
    """Return the first of several answers, or the one that there is."""
    return value[0] if isinstance(value, (list, tuple)) and value else value


def correlation(right_yes: float, wrong_yes: float, wrong_no: float, right_no: float) -> float:
    """Return Matthews' correlation of two labels in percent; 0 where one side has one label only."""
    sides = (right_yes + wrong_yes, right_yes + wrong_no, right_no + wrong_yes, right_no + wrong_no)
    spread = math.prod(sides)
    return 100 * (right_yes * right_no - wrong_yes * wrong_no) / math.sqrt(spread) if spread else 0.0


def _cells(answer: bool, gold: bool) -> Counts:  # noqa: FBT001 - two labels
    """Return right yes, wrong yes, wrong no, right no."""
    return tuple(float((answer, gold) == each) for each in ((True, True), (True, False), (False, True), (False, False)))


class GeneLabels(Tally):
    """Matthews' correlation of ``positive`` and ``negative``, of all replies and of those with a label (GUE)."""

    name = "matthews_correlation_all"

    @property
    def names(self) -> tuple[str, ...]:
        """Both correlations, and how many replies have neither label."""
        return ("matthews_correlation_all", "matthews_correlation_filtered", "non_pos_neg_count", "total_count")

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Count the labels."""
        said, gold = (str(each).strip().lower() for each in (first_of(answer), gold_of(sample)))
        cells = _cells(said == "positive", gold == "positive")
        known = {said, gold} <= {"positive", "negative"}
        return (*cells, *(each * known for each in cells), float(not known))

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Correlate."""
        values = (correlation(*sums[:4]), correlation(*sums[4:8]), sums[8], sum(sums[:4]))
        return dict(zip(self.names, values, strict=True))


_YES, _NO = ("Direct", "True", True), ("Indirect", "False", False)


class MaterialProperties(SeesRows, CorpusMetric):
    """Errors of numbers, or the area under the curve of labels, as the first reference is (LLM4Mat)."""

    name = "MAE"
    higher_is_better = False

    def see(self, samples: Iterable[Sample]) -> None:
        """Look whether the references are numbers."""
        first = next((gold_of(sample) for sample in samples), 0.0)
        if not _is_number(first):
            self.name, self.higher_is_better = "AUC", True

    @property
    def names(self) -> tuple[str, ...]:
        """The figures of numbers, or that of labels."""
        return ("MAE", "total", "filtered", "RMSE", "MAD", "MAD/MAE") if self.name == "MAE" else ("AUC",)

    def figures(self, pairs: Sequence[ScoredPair]) -> Mapping[str, float]:
        """Compare what can be compared."""
        if self.name == "AUC":
            return _area([(gold, said) for said, gold, _ in pairs])
        known = [pair for said, gold, _ in pairs if (pair := _numbers(gold, said))]
        counted = {"total": float(len(pairs)), "filtered": float(len(known))}
        if not known:
            return counted
        errors = [abs(gold - said) for gold, said in known]
        middle = math.fsum(gold for gold, _ in known) / len(known)
        mad, mae = (math.fsum(each) / len(known) for each in ([abs(gold - middle) for gold, _ in known], errors))
        rmse = math.sqrt(math.fsum(each * each for each in errors) / len(known))
        return {**counted, "MAE": mae, "RMSE": rmse, "MAD": mad} | ({"MAD/MAE": mad / mae} if mae else {})


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _numbers(gold: Any, said: Any) -> tuple[float, float] | None:
    try:
        pair = float(gold), float(said)
    except (TypeError, ValueError):
        return None
    return pair if all(map(math.isfinite, pair)) else None


def _area(pairs: Sequence[tuple[Any, Any]]) -> Mapping[str, float]:
    """Return the mean of the shares of right answers to both labels; nothing where one label is missing."""
    known = [(gold in _YES, said in _YES) for gold, said in pairs if gold in (*_YES, *_NO) and said in (*_YES, *_NO)]
    rights = [[gold == said for gold, said in known if gold is label] for label in (True, False)]
    return {"AUC": sum(sum(each) / len(each) for each in rights) / 2} if all(rights) else {}


# ---- Matbench ----

_ATOMS = r"(?:[A-Z][a-z]?\d*)+"
_FORMULA = re.compile(rf"\b{_ATOMS}(?:\({_ATOMS}\)\d*)*\b")
_ELEMENTS = re.findall(
    "[A-Z][a-z]?",
    "HLiBeBCNOFNaMgAlSiPSClKCaScTiVCrMnFeCoNiCuZnGaGeAsSeBrRbSrYZrNbMoTcRuRhPdAgCdInSnSbTeICsBaLaCePrNdPmSmEuGdTbDyHo"
    "ErTmYbLuHfTaWReOsIrPtAuHgTlPbBiPoAtFrRaAcThPaUNpPuAmCmBkCfEsFmMdNoLrRfDbSgBhHsMtDsRgCnNhFlMcLvTs",
)
"""The signs of the elements that the home looks for."""
_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_LARGE = 20


def without_formulas(text: str) -> str:
    """Leave out chemical formulas, and then words with the sign of an element in them."""
    text = _FORMULA.sub("", text)
    for element in [each for each in _ELEMENTS if each in text]:
        text = re.sub(rf"\b\w*{element}\w*\b", "", text)
    return text


def measured(reply: str) -> float:
    """Return the number after ``answer:``, or the last one, without its sign; 0 for a large one, or none."""
    text = without_formulas(reply)
    found = re.findall(f"answer:({_NUMBER})", text.lower().replace(" ", "")) or re.findall(_NUMBER, text)
    number = float(found[-1]) if found else 0.0
    return abs(number) if number < 0 else number if number < _LARGE else 0.0


def affirmed(reply: str) -> bool:
    """Whether a reply says yes: it does unless it says no."""
    text = reply.lower().replace(" ", "")
    if "answer:true" in text:
        return True
    return "answer:false" not in text and "no" not in text


class MeasuredNumber(Tally):
    """The mean distance between the number of a reply and that of the reference; others are left out (Matbench)."""

    name = "mae"
    higher_is_better = False

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Measure the distance."""
        pair = _numbers(gold_of(sample), measured(text_of(answer, "MatbenchEvaluator_regression")))
        return (abs(pair[0] - pair[1]), 1.0) if pair else (0.0, 0.0)

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the mean."""
        return {self.name: sums[0] / sums[1]} if sums[1] else {}


class Affirmed(Tally):
    """Share of right answers yes and no, and precision, recall and F1 of yes, as fractions (Matbench)."""

    name = "accuracy"

    @property
    def names(self) -> tuple[str, ...]:
        """The figures."""
        return ("accuracy", "precision", "recall", "f1_score")

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Count the labels."""
        gold = gold_of(sample)
        if gold not in (True, False):
            raise DataError(f"MatbenchEvaluator_classification wants True or False as the reference, not {gold!r:.80}")
        return _cells(affirmed(text_of(answer, "MatbenchEvaluator_classification")), bool(gold))

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the figures."""
        yes, wrong_yes, wrong_no, no = sums
        values = (
            *(ratio(yes + no, sum(sums)), ratio(yes, yes + wrong_yes), ratio(yes, yes + wrong_no)),
            ratio(2 * yes, 2 * yes + wrong_yes + wrong_no),
        )
        return dict(zip(self.names, values, strict=True))


EVALUATORS: dict[str, Factory] = {
    "GUE_Evaluator": plain(GeneLabels),
    "LLM4Mat_Evaluator": plain(MaterialProperties),
    "MatbenchEvaluator_regression": plain(MeasuredNumber),
    **dict.fromkeys(
        ("MatbenchEvaluator_classification", "MatbenchEvaluator_classification_glass"),
        plain(Affirmed),
    ),
}
