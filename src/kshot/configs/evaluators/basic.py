"""Evaluators that compare a prediction with its reference, built on kshot's metrics where one exists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kshot.cleanups.formulas import boxed, normalize_final_answer
from kshot.cleanups.patterns import general_postprocess
from kshot.cleanups.programs import completed_program, completion_tests
from kshot.configs.corpus_metrics import AucRoc, Mcc
from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.extras import import_package
from kshot.core.records import Sample, Value
from kshot.metrics import Metric, PassAtK, Rouge
from kshot.metrics.aggregates import bleu
from kshot.statistics.resampling import mean

RIGHT, WRONG = 100.0, 0.0
_SAME_NUMBER = 1e-6
"""Numbers that differ by less are the same."""


class SameText(Metric):
    """Share of predictions that are the reference, both written as text."""

    name = "Accuracy"
    bounds = (WRONG, RIGHT)
    binary = True

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Return 100 for a right prediction, 0 for any other; the turns of a conversation are averaged."""
        if isinstance(prediction, (list, tuple)) and isinstance(reference, (list, tuple)):
            pairs = list(zip(prediction, reference, strict=False))
            return mean([self.rate(*pair) for pair in pairs]) if len(prediction) == len(reference) and pairs else WRONG
        return RIGHT if self.same(prediction, reference) else WRONG

    def same(self, prediction: Any, reference: Any) -> bool:
        """Whether one answer is right."""
        return str(prediction) == str(reference)


class SamePhrase(Metric):
    """Share of predictions that, trimmed to their first phrase, are one of the references."""

    name = "EM"
    bounds = (WRONG, RIGHT)
    binary = True

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare with every reference."""
        known = [str(each) for each in reference] if isinstance(reference, (list, tuple)) else [str(reference)]
        phrase = general_postprocess(str(prediction))
        return RIGHT if phrase in {general_postprocess(each) for each in known} or prediction in known else WRONG


class OpenAnswer(Metric):
    """Share of replies whose first line, after "answer is", is one of the references."""

    name = "Accuracy"
    bounds = (WRONG, RIGHT)
    binary = True

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Clean the reply up, then compare with every reference."""
        line = str(prediction).strip().split("\n")[0].lower()
        phrase = general_postprocess(re.split("answer is", line)[-1].strip())
        known = reference if isinstance(reference, (list, tuple)) else [reference]
        return RIGHT if phrase in {general_postprocess(str(each)).lower() for each in known} else WRONG


class SameNumber(SameText):
    """Share of predictions that are the reference's number."""

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare as text, then as numbers."""
        try:
            return bool(prediction == reference or abs(float(prediction) - float(reference)) < _SAME_NUMBER)
        except (TypeError, ValueError):
            return False


class SameMath(SameText):
    """Share of predictions that are the reference, once both are written in one way."""

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare what is boxed, or all of it."""
        return _formula(prediction) == _formula(reference)


class SameIgnoringCase(SameText):
    """Share of replies equal to the reference, letter case aside."""

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare without regard to case."""
        return str(prediction).strip().lower() == str(reference).strip().lower()


class NearestCandidate(Metric):
    """Share of replies whose edit distance is shortest to the right one of the candidates."""

    name = "Accuracy"
    bounds = (WRONG, RIGHT)
    binary = True

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Find the nearest candidate."""
        if not isinstance(reference, Mapping) or "candidates" not in reference or "label" not in reference:
            raise DataError(f"EDAccEvaluator wants candidates and label in the reference, not {reference!r:.80}")
        text = str(prediction)
        candidates = [[each] if isinstance(each, str) else list(each) for each in reference["candidates"]]
        distances = [min(edit_distance(text, str(spelling)) for spelling in each) for each in candidates]
        return RIGHT if distances.index(min(distances)) == int(reference["label"]) else WRONG


class FirstLineF1(Metric):
    """Word overlap of the reply's first line with the best reference, as SQuAD scores it."""

    name = "F1"
    bounds = (WRONG, RIGHT)

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare bags of words."""
        words = Counter(_squad_words(str(prediction).split("\n")[0]))
        best = 0.0
        for each in reference if isinstance(reference, (list, tuple)) else [reference]:
            gold = Counter(_squad_words(str(each)))
            common = (words & gold).total()
            if not words or not gold:
                best = max(best, RIGHT if words == gold else WRONG)
            elif common:
                best = max(best, 200 * common / (words.total() + gold.total()))
        return best


class PlainBleu(Metric):
    """BLEU of the whole corpus, by sacrebleu's default tokenizer."""

    name = "BLEU"
    bounds = (WRONG, RIGHT)

    def __init__(self) -> None:
        from sacrebleu.metrics.bleu import BLEU

        self._bleu = BLEU(effective_order=True)

    @property
    def aggregates(self) -> Mapping[str, str]:
        """It is computed from sums."""
        return {self.name: "bleu"}

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Value]:
        """Return what one reply adds to the sums of the corpus."""
        texts = [str(each) for each in reference] if isinstance(reference, (list, tuple)) else [str(reference)]
        scored = self._bleu.sentence_score(str(prediction), texts)
        return {self.name: tuple(float(x) for x in (scored.sys_len, scored.ref_len, *scored.counts, *scored.totals))}

    def reduce(self, name: str, values: Sequence[Value]) -> float:  # noqa: ARG002 - there is one name
        """Return the score of the summed counts."""
        return bleu(values)


class WordRouge(Rouge):
    """ROUGE of Chinese text, cut into words by the package jieba."""

    def __init__(self) -> None:
        super().__init__()
        self._jieba = import_package("JiebaRougeEvaluator", "jieba")

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Value]:
        """Replace each word by its number, so that a tokenizer for Latin script sees the words."""
        numbers: dict[str, int] = {}

        def numbered(text: Any) -> str:
            return " ".join(
                f"w{numbers.setdefault(word, len(numbers))}" for word in self._jieba.cut(str(text)) if word.strip()
            )

        return super().rate(numbered(prediction), numbered(reference))


class CompletedPrograms(PassAtK):
    """pass@k of functions that complete the row's ``prompt`` and are run against its ``test``."""

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value]:
        """Run every reply."""
        row = sample.fields
        missing = [name for name in ("prompt", "test", "entry_point") if name not in row]
        if missing:
            raise DataError(
                f"the rows have no column {missing[0]!r}", hint="HumanEval needs prompt, test, entry_point."
            )
        programs = [completed_program(row["prompt"], row["entry_point"], each) for each in answer]
        return self.rate(programs, completion_tests(row["prompt"], row["entry_point"], row["test"]))


def edit_distance(left: str, right: str) -> int:
    """Return how many letters must be inserted, removed or changed."""
    before = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        current = [i]
        for j, b in enumerate(right, 1):
            current.append(min(before[j] + 1, current[-1] + 1, before[j - 1] + (a != b)))
        before = current
    return before[-1]


def _squad_words(text: str) -> list[str]:
    bare = re.sub(r"[!-/:-@\[-`{-~]", "", text.lower())
    return re.sub(r"\b(?:a|an|the)\b", " ", bare).split()


def _formula(value: Any) -> str:
    text = str(value)
    inner = boxed(text)
    return normalize_final_answer(text if inner is None else inner).replace("\n", "").lower()


def _programs(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    k = options.get("k", (1,))
    return CompletedPrograms([k] if isinstance(k, int) else list(k))


EVALUATORS: dict[str, Factory] = {
    **dict.fromkeys(("AccEvaluator", "AccwithDetailsEvaluator", "AccContaminationEvaluator"), plain(SameText)),
    **dict.fromkeys(("BBHEvaluator_mcq", "CMMLUEvaluator", "CEvalEvaluator", "MMLUEvaluator"), plain(SameText)),
    **dict.fromkeys(("EMEvaluator",), plain(SamePhrase)),
    **dict.fromkeys(("TriviaQAEvaluator", "NQEvaluator", "NQEvaluatorCN"), plain(OpenAnswer)),
    **dict.fromkeys(("Gsm8kEvaluator", "GSM8KEvaluator"), plain(SameNumber)),
    **dict.fromkeys(("MATHEvaluator", "MATHVerifyEvaluator", "MathEvaluator", "AIMEEvaluator"), plain(SameMath)),
    **dict.fromkeys(("BBHEvaluator",), plain(SameIgnoringCase)),
    **dict.fromkeys(("EDAccEvaluator",), plain(NearestCandidate)),
    **dict.fromkeys(("SquadEvaluator", "SQuAD20Evaluator"), plain(FirstLineF1)),
    **dict.fromkeys(("BleuEvaluator", "BleuFloresEvaluator"), plain(PlainBleu)),
    **dict.fromkeys(("HumanEvalEvaluator", "HumanevalEvaluator", "HumanEvaluator"), _programs),
    "RougeEvaluator": plain(Rouge),
    "JiebaRougeEvaluator": plain(WordRouge),
    "MccEvaluator": plain(Mcc),
    "AUCROCEvaluator": plain(AucRoc),
}
