"""Evaluators of proteins (PEER, OPI) and of layers of the earth (OpenSWI)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from kshot.cleanups.literals import NO_VALUE, literal
from kshot.cleanups.sequences import PEER_postprocess
from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.materials import first_of
from kshot.configs.evaluators.scores import RIGHT, WRONG, Points, RightOrWrong, text_of
from kshot.configs.evaluators.tallies import Counts, Tally, gold_of, ratio
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Sample, Value
from kshot.metrics import Metric

# ---- proteins ----


class SameYesOrNo(RightOrWrong):
    """Share of replies that say yes or no as the reference does (PEER)."""

    def __init__(self) -> None:
        super().__init__("accuracy")

    def same(self, prediction: Any, reference: Any) -> bool:
        """Read both in one way."""
        said, gold = (PEER_postprocess(first_of(each)).strip().lower() for each in (prediction, reference))
        return said == gold and said in ("yes", "no")


_DIVIDED = re.compile(r"[;,，；]\s*")
_SEVERAL = ("EC_number", "GO", "Keywords", "gSymbol2Tissue", "gSymbol2Cancer", "gName2Cancer")


class ProteinTexts(Tally):
    """What proteins are and do (OPI): ROUGE-L, overlap of terms, or the same text, by task, to four digits."""

    def __init__(self, task: str) -> None:
        self.task = task
        self.name = self.names[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The figures of the task."""
        if self.task in _SEVERAL:
            return ("F1 Score", "Precision", "Recall")
        return ("ROUGE-L",) if self.task == "Function" else ("Accuracy",)

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Compare one answer."""
        said, gold = (str(first_of(each)).strip() for each in (answer, gold_of(sample)))
        if self.task in _SEVERAL:
            return _overlap(*({part.strip() for part in _DIVIDED.split(each) if part.strip()} for each in (said, gold)))
        if self.task == "Function":
            return (_stemmed_rouge().score(gold, said)["rougeL"].fmeasure, 1.0)
        if self.task not in ("Subcellular_localization", "Fold_type"):
            said, gold = said.lower(), gold.lower()
        return (float(said == gold), 1.0)

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the means."""
        *points, size = sums
        return {name: round(ratio(each, size), 4) for name, each in zip(self.names, points, strict=True)}


def _overlap(said: set[str], gold: set[str]) -> Counts:
    """Return F1, precision, recall; references without a term do not count."""
    common = len(said & gold)
    precision, recall = ratio(common, len(said)), ratio(common, len(gold))
    return (ratio(2 * precision * recall, precision + recall), precision, recall, 1.0) if gold else (0.0,) * 4


def _stemmed_rouge() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], use_stemmer=True)


def _proteins(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    return ProteinTexts(str(options.get("task", "")))


# ---- layers of the earth ----

_LIST = re.compile(r"\[.*?\]", re.DOTALL)


class DistanceOfLists(Points):
    """The mean distance of lists of numbers, and the share of lists of the right length (OpenSWI)."""

    bounds = None

    @property
    def names(self) -> tuple[str, ...]:
        """Both."""
        return ("score", "valid")

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Value]:
        """Compare with the last list of a reply; missing numbers are 0, further ones are left out."""
        if not isinstance(reference, (list, tuple)) or not all(isinstance(each, (int, float)) for each in reference):
            raise DataError(f"OpenSWIMSEEvaluator wants a list of numbers as the reference, not {reference!r:.80}")
        gold = [float(each) for each in reference]
        found = _LIST.findall(text_of(prediction, "OpenSWIMSEEvaluator"))
        try:
            said = literal(found[-1]) if found else []
        except NO_VALUE:
            said = []
        if not all(isinstance(each, float) for each in said):
            said = []
        filled = [*said, *[0.0] * (len(gold) - len(said))][: len(gold)]
        squares = math.fsum((one - other) ** 2 for one, other in zip(gold, filled, strict=True))
        return {"score": math.sqrt(squares / len(gold)), "valid": RIGHT if said and len(said) == len(gold) else WRONG}


EVALUATORS: dict[str, Factory] = {
    "PEERRuleEvaluator": plain(SameYesOrNo),
    "Opi_Evaluator": _proteins,
    "OpenSWIMSEEvaluator": plain(DistanceOfLists),
}
