"""Evaluators that compare a prediction with its reference, and those of losses, which need no reference."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kshot.cleanups.config_names import cleanup_function
from kshot.cleanups.patterns import general_postprocess
from kshot.cleanups.programs import completed_program, completion_tests
from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.scores import RIGHT, WRONG, Points, RightByTurn, RightOrWrong, columns, equal
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.metric import MEAN, Aggregate
from kshot.core.records import Row, Sample
from kshot.metrics import Metric, PassAtK
from kshot.metrics.aggregates import OfSums
from kshot.metrics.passatk import tests_of_sample
from kshot.metrics.words import edit_distance, plain_words

_SAME_NUMBER = 1e-6
"""Numbers that differ by less are the same."""


def same_text(prediction: Any, reference: Any) -> bool:
    """Whether a prediction is the reference, both written as text."""
    return str(prediction) == str(reference)


def same_phrase(prediction: Any, reference: Any) -> bool:
    """Whether a prediction, trimmed to its first phrase, is one of the references, as it is or trimmed."""
    known = _texts(reference)
    return general_postprocess(str(prediction)) in {*known, *map(general_postprocess, known)}


def phrase_after(*phrases: str, contained: bool = True, trim: bool = True) -> Callable[[Any, Any], bool]:
    """Return whether the first line of a reply holds a reference, or is one, after a phrase such as "answer is".

    What follows the last of each of ``phrases`` counts. ``contained``: it need only hold a reference.
    """

    def same(prediction: Any, reference: Any) -> bool:
        text = str(prediction)
        line = (text.strip() if trim else text).split("\n")[0].lower()
        for phrase in phrases:
            line = line.split(phrase)[-1]
        found = general_postprocess(line.strip() if trim else line)
        known = [general_postprocess(each).lower() for each in _texts(reference)]
        return any(each in found if contained else each == found for each in known)

    return same


def same_number(prediction: Any, reference: Any) -> bool:
    """Whether a prediction is the reference, or its number if that is a whole one."""
    try:
        return bool(prediction == reference or abs(float(prediction) - int(reference)) < _SAME_NUMBER)
    except (TypeError, ValueError, OverflowError):
        return False


def same_free_form(framework: str, prediction: Any, reference: Any) -> bool:
    """Whether an answer in free form is the reference, by the rules of a project (BIG-Bench Hard).

    AISBench cleans the reply up and compares exactly; all others clean both up, and letter case does not matter.
    """
    clean = cleanup_function("bbh_freeform_postprocess", framework) or str
    found, gold = str(clean(str(prediction))), str(reference)
    return found == gold if framework == "ais_bench" else found.casefold() == str(clean(gold)).casefold()


def nearest_candidate(prediction: Any, reference: Any) -> bool:
    """Whether the edit distance of a reply is shortest to the right one of the candidates."""
    if not isinstance(reference, Mapping) or "candidates" not in reference or "label" not in reference:
        raise DataError(f"EDAccEvaluator wants candidates and label in the reference, not {reference!r:.80}")
    text = str(prediction)
    candidates = [[each] if isinstance(each, str) else list(each) for each in reference["candidates"]]
    distances = [min(edit_distance(text, str(spelling)) for spelling in each) for each in candidates]
    return distances.index(min(distances)) == int(reference["label"])


def first_line_f1(prediction: Any, reference: Any) -> float:
    """Return the word overlap of a reply's first line with the best reference, as SQuAD scores it."""
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


def humaneval_columns(row: Row) -> list[Any]:
    """Return the prompt, the tests and the name of the function."""
    return columns(row, "prompt", "test", "entry_point", hint="HumanEval needs prompt, test, entry_point.")


class CompletedPrograms(PassAtK):
    """pass@k of functions that complete the row's ``prompt`` and are run against its ``test``."""

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:
        """Run every reply."""
        prompt, test, function = humaneval_columns(sample.fields)
        with tests_of_sample():
            programs = [completed_program(prompt, function, each) for each in answer]
            tests = completion_tests(prompt, function, test)
        return self.rate(programs, tests)


def _texts(reference: Any) -> list[str]:
    return [str(each) for each in reference] if isinstance(reference, (list, tuple)) else [str(reference)]


# ---- losses: how likely a model finds the texts of a dataset ----


class Loss(Points):
    """A loss per token of all texts; ``value`` reads what an answer adds to it.

    OpenCompass calls it a perplexity, and takes no exponential.
    """

    needs_reference = False

    def __init__(self, value: Callable[[Any], Any], aggregate: Aggregate) -> None:
        name, bounds = "average_ppl", (0.0, math.inf)
        rate = lambda prediction, _: {name: value(prediction)}  # noqa: E731 - it needs no name of its own
        super().__init__(name, rate, bounds, higher_is_better=False, aggregates={name: aggregate})


def _loss_and_tokens(prediction: Any) -> tuple[float, float]:
    if not isinstance(prediction, (list, tuple)) or len(prediction) != 2:  # noqa: PLR2004 - loss and tokens
        raise DataError(f"AverageInferencePPLEvaluator takes a loss and a number of tokens, not {prediction!r:.60}")
    return _number(prediction[0]), _number(prediction[1])


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DataError(
            f"an evaluator of losses takes a number, not {value!r:.60}", hint="Use PPLOnlyInferencer to compute it."
        )
    return float(value)


# ---- by name ----


def _named(
    own: str, theirs: str, same: Callable[[Any, Any], bool], metric: type[RightOrWrong] = RightOrWrong
) -> Factory:
    """Return the factory of a share of right answers with a name of its own in configs of another project."""
    return lambda name, options, scope: metric(theirs if name.framework else own, same)  # noqa: ARG005 - as every factory


def _free_form(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    return RightByTurn("score" if name.framework else "Accuracy", partial(same_free_form, name.framework))


_EQUAL_TEXT = _named("Accuracy", "accuracy", same_text, RightByTurn)

EVALUATORS: dict[str, Factory] = {
    **dict.fromkeys(("AccEvaluator", "CMMLUEvaluator", "CEvalEvaluator", "MMLUEvaluator"), _EQUAL_TEXT),
    "AccwithDetailsEvaluator": _named("Accuracy", "accuracy", equal, RightByTurn),
    "BBHEvaluator_mcq": _named("Accuracy", "score", equal, RightByTurn),
    "EMEvaluator": _named("EM", "score", same_phrase),
    "TriviaQAEvaluator": _named("Accuracy", "score", phrase_after("answer is", "a:", "answer:")),
    "NQEvaluator": _named("Accuracy", "score", phrase_after("answer is")),
    "NQEvaluatorCN": _named("Accuracy", "score", phrase_after("答案是：", contained=False, trim=False)),
    "SQuAD20Evaluator": _named("Accuracy", "score", phrase_after("answer is", contained=False, trim=False)),
    **dict.fromkeys(("Gsm8kEvaluator", "GSM8KEvaluator"), _named("Accuracy", "accuracy", same_number, RightByTurn)),
    "BBHEvaluator": _free_form,
    "EDAccEvaluator": _named("Accuracy", "accuracy", nearest_candidate),
    "SquadEvaluator": plain(Points, "F1", first_line_f1),
    "AveragePPLEvaluator": plain(Loss, _number, MEAN),  # the mean of the losses per token
    "AverageInferencePPLEvaluator": plain(  # the loss of all texts together, by their tokens
        Loss, _loss_and_tokens, OfSums(lambda sums: sums[0] / sums[1] if sums[1] else 0.0)
    ),
}
