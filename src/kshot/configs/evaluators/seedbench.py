"""Evaluators of SeedBench, questions about plants: overlap of letters, texts that are contained, ROUGE-L of phrases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.scores import Points, RightOrWrong, text_of
from kshot.configs.evaluators.tallies import Counts, Tally, gold_of, ratio
from kshot.configs.evaluators.words import chinese_cut
from kshot.core.extras import import_package
from kshot.core.records import Sample


class LettersOverlap(Tally):
    """F1 of the options A-D that all replies choose (SeedBench)."""

    name = "F1Score"

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Count common letters, wrong ones and missing ones."""
        said, gold = (set(re.sub("[^a-d,]+", "", str(each).lower()).split(",")) for each in (answer, gold_of(sample)))
        return (float(len(said & gold)), float(len(said - gold)), float(len(gold - said)))

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return F1."""
        common, wrong, missing = sums
        return {self.name: 100 * ratio(2 * common, 2 * common + wrong + missing)}


class HoldsText(RightOrWrong):
    """Share of replies that contain the reference, in any case (SeedBench)."""

    def __init__(self) -> None:
        super().__init__("ACCStrScore")

    def same(self, prediction: Any, reference: Any) -> bool:
        """Look for it."""
        return str(reference).strip().lower() in text_of(prediction, "AccScoreStr_Evaluator").strip().lower()


_LEAD = re.compile("(?:正确答案|correct answer)[:：]", re.IGNORECASE)
_EMPTY = "无内容"


class PhrasesRouge(Points):
    """ROUGE-L of Chinese phrases between commas, each with that of the reference at its place (SeedBench)."""

    def __init__(self) -> None:
        super().__init__("AvgRougeScore")
        self._cut = chinese_cut("AverageRougeScoreEvaluator")
        self._measure = import_package("AverageRougeScoreEvaluator", "rouge-chinese").Rouge()

    def __repr__(self) -> str:
        """Show the class alone: packages are no settings."""
        return "PhrasesRouge()"

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Return the mean of the phrases."""
        gold = [each.strip() for each in str(reference).replace("，", ",").split(",")]
        text = _LEAD.sub("", text_of(prediction, "AverageRougeScoreEvaluator")).strip()
        said = [text] if len(gold) == 1 else [each.strip() for each in text.split(",")][: len(gold)]
        said += [_EMPTY] * (len(gold) - len(said))
        pairs = [(" ".join(self._cut(one)), " ".join(self._cut(other))) for one, other in zip(said, gold, strict=True)]
        found = self._measure.get_scores(
            [one if one.strip() else _EMPTY for one, _ in pairs], [other for _, other in pairs]
        )
        return float(100 * sum(each["rouge-l"]["f"] for each in found) / len(found))


EVALUATORS: dict[str, Factory] = {
    "F1ScoreEvaluator": plain(LettersOverlap),
    "AccScoreStr_Evaluator": plain(HoldsText),
    "AverageRougeScoreEvaluator": plain(PhrasesRouge),
}
