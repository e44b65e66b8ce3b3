"""TER, computed by sacrebleu."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from kshot.core.metric import Measure
from kshot.metrics.aggregates import TER as EDITS_PER_WORD
from kshot.metrics.metric import Metric
from kshot.metrics.references import reference_texts


@cache
def _sacrebleu(*settings: bool) -> Any:
    from sacrebleu.metrics.ter import TER

    return TER(*settings)


class Ter(Metric):
    """TER by sacrebleu, of the whole corpus: word edits per 100 words of the reference; lower is better.

    An edit inserts, deletes, replaces or shifts words. ``normalized`` splits punctuation off, ``no_punct`` removes it,
    ``asian_support`` does so in Chinese, Japanese and Korean too, ``case_sensitive`` tells capitals apart: sacrebleu's
    own options. The value of a sample is (edits, words of the reference): the fewest edits over the references, and the
    mean of their lengths. These add up. There is no upper bound.
    """

    name = "TER"

    def __init__(
        self,
        *,
        normalized: bool = False,
        no_punct: bool = False,
        asian_support: bool = False,
        case_sensitive: bool = False,
    ) -> None:
        self.normalized, self.no_punct = normalized, no_punct
        self.asian_support, self.case_sensitive = asian_support, case_sensitive

    @property
    def measures(self) -> Sequence[Measure]:
        """The edits per 100 words."""
        return (Measure(self.name, EDITS_PER_WORD, (0.0, math.inf), higher_is_better=False),)

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Return what one text adds to the two sums."""
        scorer = _sacrebleu(self.normalized, self.no_punct, self.asian_support, self.case_sensitive)
        scored = scorer.sentence_score(str(prediction), reference_texts(reference, self.name))
        return {self.name: (float(scored.num_edits), float(scored.ref_length))}
