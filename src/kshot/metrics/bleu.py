"""BLEU, computed by sacrebleu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from kshot.core.records import Value
from kshot.metrics.metric import Metric
from kshot.metrics.references import reference_texts
from kshot.statistics.resampling import mean

_MAX_ORDER = 4


@cache
def _sacrebleu() -> Any:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize="intl", effective_order=True)


class Bleu(Metric):
    """BLEU with sacrebleu's ``intl`` tokenizer: the mean over sentences, and the score of the whole corpus.

    The value of Corpus_BLEU for a sample is (hypothesis length, reference length, matches of order 1-4, n-grams of
    order 1-4). These add up, and the score is computed from their sums. The reference is a text or a list of texts.
    """

    bounds = (0.0, 100.0)
    name = "Corpus_BLEU"

    @property
    def names(self) -> tuple[str, ...]:
        """Sentence_BLEU and Corpus_BLEU."""
        return ("Sentence_BLEU", "Corpus_BLEU")

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Value]:
        """Score one sentence, and return the statistics that it adds to the corpus."""
        scored = _sacrebleu().sentence_score(str(prediction), reference_texts(reference, "BLEU"))
        sums = (scored.sys_len, scored.ref_len, *scored.counts, *scored.totals)
        return {"Sentence_BLEU": scored.score, "Corpus_BLEU": tuple(float(part) for part in sums)}

    def reduce(self, name: str, values: Sequence[Value]) -> float:
        """Return the mean of the sentence scores, or the score of the summed statistics."""
        if name != "Corpus_BLEU":
            return mean(values)
        sums = [int(sum(column)) for column in zip(*(v for v in values if isinstance(v, tuple)), strict=True)]
        score = type(_sacrebleu()).compute_bleu(
            correct=sums[2 : 2 + _MAX_ORDER],
            total=sums[2 + _MAX_ORDER :],
            sys_len=sums[0],
            ref_len=sums[1],
            smooth_method="exp",
        )
        return float(score.score)
