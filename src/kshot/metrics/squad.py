"""SQuAD's exact match and F1, as its own scripts compute them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from kshot.core.errors import DataError
from kshot.metrics.metric import Metric
from kshot.metrics.references import checked_choice, reference_list
from kshot.metrics.words import ARTICLES, bag_f1, normalise, plain_words

SquadVersion = Literal["1.1", "2.0"]


class SquadEm(Metric):
    """Exact match by SQuAD's official script: 100 if the prediction equals a reference in normal form, else 0.

    The normal form has no upper case, no ASCII punctuation, none of a/an/the, and single spaces. ``Em`` leaves out
    "and" as well. The references are a text or a list. ``version=2.0``: an empty list stands for "no answer".
    """

    bounds = (0.0, 100.0)
    binary = True
    name = "SQuAD_EM"

    def __init__(self, version: SquadVersion = "1.1") -> None:
        self.version = checked_choice("version", version, ("1.1", "2.0"))

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare one prediction with its references."""
        predicted = normalise(prediction, ARTICLES)
        return _best(lambda answer: float(predicted == answer), reference, self.version, self.name)


class SquadF1(Metric):
    """Word F1 by SQuAD's official script: the best over the references of 2·P·R / (P + R), words as a bag.

    The words are those of the normal form of ``SquadEm``. Two empty texts have 0 by the script of version 1.1, and 100
    by that of version 2.0, where an empty list of references stands for "no answer".
    """

    bounds = (0.0, 100.0)
    name = "SQuAD_F1"

    def __init__(self, version: SquadVersion = "1.1") -> None:
        self.version = checked_choice("version", version, ("1.1", "2.0"))

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare one prediction with its references."""
        predicted = plain_words(prediction)
        return _best(lambda answer: self._overlap(predicted, answer.split()), reference, self.version, self.name)

    def _overlap(self, predicted: list[str], expected: list[str]) -> float:
        if not predicted and not expected:
            return float(self.version == "2.0")
        return bag_f1(predicted, expected)


def _best(rate: Callable[[str], float], reference: Any, version: str, name: str) -> float:
    """Return the best rating over the references in normal form, in percent."""
    answers = [reference] if isinstance(reference, str) else reference
    if version == "2.0" and isinstance(
        answers, list | tuple
    ):  # its script leaves out answers that are empty in normal form, unless there is no other
        answers = [answer for answer in answers if normalise(answer, ARTICLES)] or [""]
    if isinstance(answers, list | tuple) and not answers:
        raise DataError(
            f"{name} got an empty list of references",
            hint="Give at least one answer for every sample, or set version=2.0, where it means that there is none.",
        )
    return 100.0 * max(rate(normalise(answer, ARTICLES)) for answer in reference_list(answers, name))
