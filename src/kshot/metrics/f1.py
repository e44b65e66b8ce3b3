"""F1: the token overlap of a prediction and its reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from kshot.metrics.metric import Metric
from kshot.metrics.references import MULTIREF_STRATEGIES, MultiRef, best_over_references, checked_choice, reference_list
from kshot.metrics.words import bag_f1, normalise

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
