"""chrF, computed by sacrebleu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from kshot.core.errors import UsageError
from kshot.core.metric import Measure
from kshot.metrics.aggregates import chrf
from kshot.metrics.metric import PERCENT, Metric
from kshot.metrics.references import reference_texts


@cache
def _sacrebleu(char_order: int, word_order: int, beta: int) -> Any:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(char_order=char_order, word_order=word_order, beta=beta)


class Chrf(Metric):
    """chrF by sacrebleu, of the whole corpus: F-score of character n-grams, in which recall counts ``beta`` times.

    It is reported as ``chrF2`` (beta is 2), and with ``word_order=2`` as ``chrF2++`` (word n-grams count too): the
    names that sacrebleu prints. The value of a sample is, for each order, (n-grams of the prediction, of the reference,
    common ones); of several references the one with the best score. These add up.
    """

    def __init__(self, word_order: int = 0, char_order: int = 6, beta: int = 2) -> None:
        if word_order < 0 or char_order < 1 or beta < 1:
            raise UsageError(
                f"chrF got word_order={word_order}, char_order={char_order}, beta={beta}",
                hint="Give a word order from 0 up, and a character order and a beta from 1 up.",
            )
        self.word_order, self.char_order, self.beta = word_order, char_order, beta
        order = "" if char_order == 6 else f":{char_order}"  # noqa: PLR2004 - the usual order, which needs no mention
        self.name = f"chrF{beta}{'+' * word_order}{order}"

    @property
    def measures(self) -> Sequence[Measure]:
        """The score of the summed statistics."""
        return (Measure(self.name, chrf(self.beta), PERCENT),)

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Return the statistics that one text adds to the corpus."""
        references = [[text] for text in reference_texts(reference, self.name)]
        # sacrebleu adds up the same lists for its significance tests
        (counts,) = self._scorer()._extract_corpus_statistics([str(prediction)], references)  # noqa: SLF001 - as above
        return {self.name: tuple(float(count) for count in counts)}

    def _scorer(self) -> Any:
        return _sacrebleu(self.char_order, self.word_order, self.beta)
