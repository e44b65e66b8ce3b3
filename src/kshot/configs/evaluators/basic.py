"""Evaluators that compare a prediction with its reference, built on kshot's metrics where one exists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kshot.cleanups.config_names import cleanup_function
from kshot.cleanups.patterns import general_postprocess
from kshot.cleanups.programs import completed_program, completion_tests
from kshot.configs.evaluators.factories import Factory, named, plain
from kshot.configs.evaluators.scores import RIGHT, WRONG, Points, RightOrWrong
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Sample
from kshot.metrics import Metric, PassAtK
from kshot.metrics.passatk import tests_of_sample
from kshot.metrics.words import edit_distance, plain_words
from kshot.statistics.resampling import mean

_SAME_NUMBER = 1e-6
"""Numbers that differ by less are the same."""


class SameText(RightOrWrong):
    """Share of predictions that are the reference, both written as text."""

    name = "Accuracy"

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Return 100 for a right prediction, 0 for any other; the turns of a conversation are averaged."""
        if isinstance(prediction, (list, tuple)) and isinstance(reference, (list, tuple)):
            pairs = list(zip(prediction, reference, strict=False))
            return mean([self.rate(*pair) for pair in pairs]) if len(prediction) == len(reference) and pairs else WRONG
        return RIGHT if self.same(prediction, reference) else WRONG

    def same(self, prediction: Any, reference: Any) -> bool:
        """Whether one answer is right."""
        return str(prediction) == str(reference)


class Equal(SameText):
    """Share of predictions that equal the reference, a number and its text apart."""

    def same(self, prediction: Any, reference: Any) -> bool:
        """Whether one answer is right."""
        return bool(prediction == reference)


class SamePhrase(SameText):
    """Share of predictions that, trimmed to their first phrase, are one of the references."""

    name = "EM"

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare with every reference, as it is and trimmed."""
        phrase, known = general_postprocess(str(prediction)), _texts(reference)
        return RIGHT if phrase in {*known, *map(general_postprocess, known)} else WRONG


class PhraseAfter(SameText):
    """Share of replies whose first line holds a reference, or is one, after a phrase such as "answer is".

    What follows the last of each of ``phrases`` counts. ``contained``: it need only hold a reference.
    """

    def __init__(self, phrases: Sequence[str] = ("answer is",), *, contained: bool = True, trim: bool = True) -> None:
        self.phrases, self.contained, self.trim = tuple(phrases), contained, trim

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Clean both up, then compare with every reference."""
        text = str(prediction)
        line = (text.strip() if self.trim else text).split("\n")[0].lower()
        for phrase in self.phrases:
            line = line.split(phrase)[-1]
        found = general_postprocess(line.strip() if self.trim else line)
        known = [general_postprocess(each).lower() for each in _texts(reference)]
        return RIGHT if any(each in found if self.contained else each == found for each in known) else WRONG


class SameNumber(SameText):
    """Share of predictions that are the reference, or its number if that is a whole one."""

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare as text, then as numbers."""
        try:
            return bool(prediction == reference or abs(float(prediction) - int(reference)) < _SAME_NUMBER)
        except (TypeError, ValueError, OverflowError):
            return False


class SameFreeForm(SameText):
    """Share of BIG-Bench Hard's answers in free form that are the reference, by the rules of a project.

    AISBench cleans the reply up and compares exactly; all others clean both up, and letter case does not matter.
    """

    def __init__(self, framework: str = "") -> None:
        self.framework = framework

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare what the clean-up leaves."""
        clean = cleanup_function("bbh_freeform_postprocess", self.framework) or str
        found, gold = str(clean(str(prediction))), str(reference)
        return found == gold if self.framework == "ais_bench" else found.casefold() == str(clean(gold)).casefold()


class NearestCandidate(RightOrWrong):
    """Share of replies whose edit distance is shortest to the right one of the candidates."""

    name = "Accuracy"

    def same(self, prediction: Any, reference: Any) -> bool:
        """Find the nearest candidate."""
        if not isinstance(reference, Mapping) or "candidates" not in reference or "label" not in reference:
            raise DataError(f"EDAccEvaluator wants candidates and label in the reference, not {reference!r:.80}")
        text = str(prediction)
        candidates = [[each] if isinstance(each, str) else list(each) for each in reference["candidates"]]
        distances = [min(edit_distance(text, str(spelling)) for spelling in each) for each in candidates]
        return distances.index(min(distances)) == int(reference["label"])


class FirstLineF1(Points):
    """Word overlap of the reply's first line with the best reference, as SQuAD scores it."""

    name = "F1"

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare bags of words."""
        words = Counter(plain_words(str(prediction).split("\n")[0]))
        best = 0.0
        for each in reference if isinstance(reference, (list, tuple)) else [reference]:
            gold = Counter(plain_words(each))
            common = (words & gold).total()
            if not words or not gold:
                best = max(best, RIGHT if words == gold else WRONG)
            elif common:
                best = max(best, 200 * common / (words.total() + gold.total()))
        return best


class CompletedPrograms(PassAtK):
    """pass@k of functions that complete the row's ``prompt`` and are run against its ``test``."""

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:
        """Run every reply."""
        row = sample.fields
        missing = [name for name in ("prompt", "test", "entry_point") if name not in row]
        if missing:
            raise DataError(
                f"the rows have no column {missing[0]!r}", hint="HumanEval needs prompt, test, entry_point."
            )
        with tests_of_sample():
            programs = [completed_program(row["prompt"], row["entry_point"], each) for each in answer]
            tests = completion_tests(row["prompt"], row["entry_point"], row["test"])
        return self.rate(programs, tests)


def _texts(reference: Any) -> list[str]:
    return [str(each) for each in reference] if isinstance(reference, (list, tuple)) else [str(reference)]


def _free_form(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    metric = SameFreeForm(name.framework)
    metric.name = "score" if name.framework else metric.name
    return metric


_TRIVIA = partial(PhraseAfter, ("answer is", "a:", "answer:"))
_SQUAD20 = partial(PhraseAfter, contained=False, trim=False)
_CHINESE = partial(PhraseAfter, ("答案是：",), contained=False, trim=False)

EVALUATORS: dict[str, Factory] = {
    "AccEvaluator": named("accuracy", SameText),
    "AccwithDetailsEvaluator": named("accuracy", Equal),
    **dict.fromkeys(("CMMLUEvaluator", "CEvalEvaluator", "MMLUEvaluator"), named("accuracy", SameText)),
    "BBHEvaluator_mcq": named("score", Equal),
    "EMEvaluator": named("score", SamePhrase),
    "TriviaQAEvaluator": named("score", _TRIVIA),
    "NQEvaluator": named("score", PhraseAfter),
    "NQEvaluatorCN": named("score", _CHINESE),
    "SQuAD20Evaluator": named("score", _SQUAD20),
    **dict.fromkeys(("Gsm8kEvaluator", "GSM8KEvaluator"), named("accuracy", SameNumber)),
    "BBHEvaluator": _free_form,
    "EDAccEvaluator": named("accuracy", NearestCandidate),
    "SquadEvaluator": plain(FirstLineF1),
}
