"""BLEU, by sacrebleu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Value
from kshot.metrics.metric import Metric
from kshot.statistics.resampling import mean

_ORDER = 4


@cache
def _sentence() -> Any:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize="intl", effective_order=True)


def texts(reference: Any, metric: str) -> list[str]:
    """A text, or a list of alternative texts, as a list."""
    found = [reference] if isinstance(reference, str) else list(reference) if isinstance(reference, Sequence) else []
    if not found or not all(isinstance(text, str) for text in found):
        raise DataError(
            f"{metric} got the reference {reference!r}, which is neither a text nor a list of texts",
            hint="Give every sample one reference text or several.",
        )
    return found


class Bleu(Metric):
    """BLEU with sacrebleu's ``intl`` tokenizer: the mean over sentences, and over the corpus as one.

    Corpus_BLEU's value for a sample is (hypothesis length, reference length, matches of order 1-4, n-grams of order
    1-4); these add up, and the score is computed from their sums. The reference is a text or a list of texts.
    """

    bounds = (0.0, 100.0)

    name = "Corpus_BLEU"

    @property
    def names(self) -> tuple[str, ...]:
        """Sentence_BLEU and Corpus_BLEU."""
        return ("Sentence_BLEU", "Corpus_BLEU")

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Value]:
        """Score one sentence, and give what it adds to the corpus."""
        scored = _sentence().sentence_score(str(prediction), texts(reference, "BLEU"))
        sums = (scored.sys_len, scored.ref_len, *scored.counts, *scored.totals)
        return {"Sentence_BLEU": scored.score, "Corpus_BLEU": tuple(float(part) for part in sums)}

    def reduce(self, name: str, values: Sequence[Value]) -> float:
        """Mean of the sentences' scores, or the score of the summed statistics."""
        if name != "Corpus_BLEU":
            return mean(values)
        sums = [int(sum(column)) for column in zip(*(v for v in values if isinstance(v, tuple)), strict=True)]
        score = type(_sentence()).compute_bleu(
            correct=sums[2 : 2 + _ORDER],
            total=sums[2 + _ORDER :],
            sys_len=sums[0],
            ref_len=sums[1],
            smooth_method="exp",
        )
        return float(score.score)
