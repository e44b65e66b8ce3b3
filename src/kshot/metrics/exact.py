"""Metrics that compare a text with its references: exact match, F1 and accuracy, by the rules of several projects."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from kshot.core.errors import DataError, UsageError
from kshot.core.records import AskFailed, Failed
from kshot.core.regexes import SECONDS, compiled
from kshot.metrics.metric import (
    MULTIREF_STRATEGIES,
    Metric,
    MultiRef,
    best_over_references,
    checked_choice,
    reference_list,
)
from kshot.metrics.words import ARTICLES, bag_f1, normalise, plain_words


class Em(Metric):
    """Exact match after normalisation: 100 when the prediction is one of the references, else 0.

    ``multiref_strategy="leave_one_out"`` takes the mean of the best over all references but one.
    """

    bounds = (0.0, 100.0)
    name = "EM"

    def __init__(self, multiref_strategy: MultiRef = "max") -> None:
        self.multiref_strategy = checked_choice("multiref_strategy", multiref_strategy, MULTIREF_STRATEGIES)

    @property
    def binary(self) -> bool:  # type: ignore[override]  # it depends on an option, so it is read-only
        """Whether the score is 0 or 100: leave_one_out takes a mean."""
        return self.multiref_strategy == "max"

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare one prediction with a list of references."""
        predicted = normalise(prediction)
        return best_over_references(
            lambda answer: 100.0 if normalise(answer) == predicted else 0.0,
            reference_list(reference, self.name),
            self.multiref_strategy,
        )


_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_DIGITS = str.maketrans("", "", string.digits)


class ExactMatch(Metric):
    r"""lm-eval's exact match: 100 if the prediction equals a reference as it is, else 0; nothing is stripped.

    What differs may be ignored, on both sides and in this order: ``regexes_to_ignore`` (what each matches is removed),
    ``ignore_case``, ``ignore_punctuation`` (ASCII) and ``ignore_numbers`` (the digits 0-9). In a spec, ``+`` stands
    between two regexes and ``\,`` for a comma: ``exactmatch,regexes_to_ignore=\,+\$`` (write ``\x2b`` for a plus).
    """

    bounds = (0.0, 100.0)
    binary = True
    name = "exact_match"

    def __init__(
        self,
        *,
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        ignore_numbers: bool = False,
        regexes_to_ignore: str | Sequence[str] = (),
    ) -> None:
        self.ignore_case, self.ignore_punctuation, self.ignore_numbers = ignore_case, ignore_punctuation, ignore_numbers
        one = isinstance(regexes_to_ignore, str)
        self.regexes_to_ignore = (str(regexes_to_ignore),) if one else tuple(regexes_to_ignore)
        try:
            for regex in self.regexes_to_ignore:
                re.compile(regex)  # what Python's own module refuses is refused
            self._ignored = [compiled(regex) for regex in self.regexes_to_ignore]
        except (re.error, TypeError, ValueError, OverflowError, RecursionError) as exc:
            raise UsageError(f"regexes_to_ignore: {regex!r} is no regular expression: {exc}") from None

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare one prediction with a text or a list of texts."""
        answers = [reference] if isinstance(reference, str) else reference_list(reference, self.name)
        predicted = self._compared(prediction)
        return 100.0 if any(predicted == self._compared(answer) for answer in answers) else 0.0

    def _compared(self, value: Any) -> str:
        text = str(value)
        for pattern in self._ignored:
            try:
                text = str(pattern.sub("", text, timeout=SECONDS))
            except TimeoutError:  # noqa: PERF203 - one of them takes too long
                message = f"the regex {pattern.pattern!r} took more than {SECONDS:g} s on one text; make it simpler"
                raise AskFailed(Failed("exact_match", message)) from None
        text = text.lower() if self.ignore_case else text
        text = text.translate(_NO_PUNCTUATION) if self.ignore_punctuation else text
        return text.translate(_NO_DIGITS) if self.ignore_numbers else text


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


_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
_SPACE_OR_HYPHEN = re.compile(r"[\s-]+")


@cache
def _treebank() -> Callable[[str], list[str]]:
    from nltk.tokenize import NLTKWordTokenizer

    tokenize: Callable[[str], list[str]] = NLTKWordTokenizer().tokenize
    return tokenize


def _treebank_words(text: str) -> list[str]:
    return _treebank()(text)


_TOKENIZERS: Mapping[str, Callable[[str], list[str]]] = {
    "nltk": _treebank_words,
    "split": str.split,
    "regex": _SPACE_OR_HYPHEN.split,
}


class F1(Metric):
    """Harmonic mean of token precision and recall, best over the references.

    - ``word_tokenize``: ``nltk`` (its Treebank word tokenizer, which needs no downloaded data; sentences are not split
      first), ``split`` (at white space) or ``regex`` (at white space and hyphens).
    - ``align_bag``: tokens as a bag (``counter``) or a ``set``.
    - ``normalize_level``: normalise the ``text`` before it is cut, each ``token`` after, or ``both``.
    - ``force_number_match``: 0 when the reference has numbers and the prediction has none of them.
    """

    bounds = (0.0, 100.0)
    name = "F1"

    def __init__(
        self,
        word_tokenize: Literal["nltk", "split", "regex"] = "nltk",
        align_bag: Literal["counter", "set"] = "counter",
        normalize_level: Literal["both", "text", "token"] = "both",
        *,
        force_number_match: bool = False,
        multiref_strategy: MultiRef = "max",
    ) -> None:
        self.word_tokenize = checked_choice("word_tokenize", word_tokenize, tuple(_TOKENIZERS))
        self.align_bag = checked_choice("align_bag", align_bag, ("counter", "set"))
        self.normalize_level = checked_choice("normalize_level", normalize_level, ("both", "text", "token"))
        self.force_number_match = force_number_match
        self.multiref_strategy = checked_choice("multiref_strategy", multiref_strategy, MULTIREF_STRATEGIES)

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare one prediction with a list of references."""
        predicted = self._bag(prediction)
        return best_over_references(
            lambda answer: self._overlap(predicted, self._bag(answer)),
            reference_list(reference, self.name),
            self.multiref_strategy,
        )

    def _bag(self, text: Any) -> Sequence[str]:
        text = str(text) if self.normalize_level == "token" else normalise(text)
        tokens = _TOKENIZERS[self.word_tokenize](text)
        if self.normalize_level != "text":
            tokens = [normalise(token) for token in tokens]
        tokens = [token for token in tokens if token]
        return list(set(tokens)) if self.align_bag == "set" else tokens

    def _overlap(self, predicted: Sequence[str], expected: Sequence[str]) -> float:
        if not predicted or not expected:
            return 100.0 if not predicted and not expected else 0.0
        if self.force_number_match:
            numbers = {token for token in expected if _NUMBER.fullmatch(token)}
            if numbers and numbers.isdisjoint(predicted):
                return 0.0
        return bag_f1(predicted, expected) * 100


class Accuracy(Metric):
    """Share of predictions equal to the reference, or to one of them when there is a list.

    Texts are compared without the white space around them. ``Accuracy("strict")`` is reported as ``Accuracy:strict``.
    """

    bounds = (0.0, 100.0)
    binary = True

    def __init__(self, name: str | None = None) -> None:
        self.name = f"Accuracy:{name}" if name else "Accuracy"

    @classmethod
    def by(cls, rules: Sequence[str], headline: str) -> tuple[Accuracy, ...]:
        """Return the accuracies by several rules of one method: the headline as ``Accuracy``, then each by its name."""
        return (_ByRule("Accuracy", headline), *(_ByRule(rule, rule) for rule in rules))

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Return 100 for a right prediction, 0 for any other."""
        given = _stripped(prediction)
        several = isinstance(reference, list | tuple | set | frozenset)
        right = (several and given in [_stripped(each) for each in reference]) or given == _stripped(reference)
        return 100.0 if right else 0.0


class _ByRule(Accuracy):
    """The accuracy of the options that one rule chose; systems are compared by the headline alone."""

    def __init__(self, name: str, rule: str) -> None:
        super().__init__()
        self.name, self.rule = name, rule
        self.details = (name,) if name == rule else ()


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value
