"""The evaluator of properties of materials (LLM4Mat)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kshot.configs.corpus_metrics import CorpusMetric, ScoredPair
from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.scores import SeesRows
from kshot.configs.evaluators.tallies import gold_of
from kshot.core.records import Sample

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


EVALUATORS: dict[str, Factory] = {"LLM4Mat_Evaluator": plain(MaterialProperties)}
