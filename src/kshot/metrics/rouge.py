"""ROUGE, computed by rouge_score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

from kshot.core.errors import UsageError
from kshot.core.metric import Measure
from kshot.metrics.metric import PERCENT, Metric
from kshot.metrics.references import checked_choice, reference_texts

_KINDS = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}
_LSUM = "rougeLsum"


@cache
def _scorer(kinds: tuple[str, ...], stemmer: bool, split: bool) -> Any:  # noqa: FBT001 - a cache takes no keywords
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(kinds), use_stemmer=stemmer, split_summaries=split)


class Rouge(Metric):
    """F-measure of stemmed words: single words, pairs of words, and the longest common subsequence.

    With several references, each of the three takes the best. ``stemmer=no`` compares the words as they are, which is
    rouge_score's own default; the names then say so: ``ROUGE-L:unstemmed``.
    """

    def __init__(self, *, stemmer: bool = True) -> None:
        self.stemmer = stemmer
        self.name = _named("ROUGE-L", stemmer=stemmer)

    @property
    def measures(self) -> Sequence[Measure]:
        """ROUGE-1, ROUGE-2 and ROUGE-L."""
        return [Measure(_named(name, stemmer=self.stemmer), bounds=PERCENT) for name in _KINDS]

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Compare one prediction with a text, or a list of texts."""
        scorer = _scorer(tuple(_KINDS.values()), self.stemmer, False)  # noqa: FBT003 - see ``_scorer``
        found = [scorer.score(text, str(prediction)) for text in reference_texts(reference, "ROUGE")]
        return {
            _named(name, stemmer=self.stemmer): max(float(scores[kind].fmeasure) for scores in found) * 100
            for name, kind in _KINDS.items()
        }


class RougeLsum(Metric):
    r"""ROUGE-Lsum: F-measure of the union of the longest common subsequences, sentence by sentence.

    ``sentences`` says where a sentence ends: at each line break (``lines``, as rouge_score and CNN / Daily Mail have
    it), also at `` . `` (``periods``: lm-eval and others turn it into a line break first), or where NLTK finds an end
    (``nltk``, which needs NLTK's punkt data). With several references the best counts. ``stemmer`` is as for ``Rouge``.
    """

    bounds = (0.0, 100.0)

    def __init__(self, sentences: Literal["lines", "periods", "nltk"] = "lines", *, stemmer: bool = True) -> None:
        self.sentences = checked_choice("sentences", sentences, ("lines", "periods", "nltk"))
        self.stemmer = stemmer
        self.name = _named("ROUGE-Lsum", stemmer=stemmer)
        if sentences == "nltk":
            _check_nltk_data()

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare one prediction with a text, or a list of texts."""
        scorer = _scorer((_LSUM,), self.stemmer, self.sentences == "nltk")
        predicted = self._cut(str(prediction))
        texts = reference_texts(reference, self.name)
        return 100 * max(float(scorer.score(self._cut(text), predicted)[_LSUM].fmeasure) for text in texts)

    def _cut(self, text: str) -> str:
        return text.replace(" . ", ".\n") if self.sentences == "periods" else text


def _named(name: str, *, stemmer: bool) -> str:
    return name if stemmer else f"{name}:unstemmed"


def _check_nltk_data() -> None:
    from nltk import sent_tokenize

    try:
        sent_tokenize("One. Two.")
    except LookupError:
        raise UsageError(
            "NLTK's data for sentences is not there", hint="Run: python -m nltk.downloader punkt_tab"
        ) from None
