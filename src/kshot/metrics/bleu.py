"""BLEU, computed by sacrebleu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

from kshot.core.errors import UsageError
from kshot.core.metric import Measure
from kshot.metrics.aggregates import BLEU
from kshot.metrics.metric import PERCENT, Metric
from kshot.metrics.references import checked_choice, reference_texts

_PLAIN_TOKENIZERS = ("intl", "13a", "zh", "char", "none")
_NEEDED_PACKAGES = {
    "ja-mecab": "sacrebleu[ja]",
    "ko-mecab": "sacrebleu[ko]",
    "spm": "sentencepiece",
    "flores101": "sentencepiece",
    "flores200": "sentencepiece",
}
"""The tokenizers that need a package beside sacrebleu; those of sentencepiece download a model when first used."""


@cache
def _sacrebleu(tokenize: str, lowercase: bool) -> Any:  # noqa: FBT001 - a cache takes no keywords
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=True)


class Bleu(Metric):
    """BLEU by sacrebleu: the mean over sentences, and the score of the whole corpus.

    ``tokenize`` is a tokenizer of sacrebleu: ``intl`` (the default here, as in LLMBox), ``13a`` (sacrebleu's own
    default, and what WMT and lm-eval report), ``zh``, ``char``, ``none``, ``ja-mecab``, ``ko-mecab``, ``spm``,
    ``flores101`` or ``flores200``. With another than ``intl`` the names say so: ``Corpus_BLEU:13a``.

    The value of Corpus_BLEU for a sample is (hypothesis length, reference length, matches of order 1-4, n-grams of
    order 1-4). These add up, and the score is computed from their sums. The reference is a text or a list of texts.
    """

    def __init__(
        self,
        tokenize: Literal[
            "intl", "13a", "zh", "char", "none", "ja-mecab", "ko-mecab", "spm", "flores101", "flores200"
        ] = "intl",
        *,
        lowercase: bool = False,
    ) -> None:
        self.tokenize = checked_choice("tokenize", tokenize, (*_PLAIN_TOKENIZERS, *_NEEDED_PACKAGES))
        self.lowercase = lowercase
        if tokenize in _NEEDED_PACKAGES:
            self._check_tokenizer()
        marks = ([] if tokenize == "intl" else [tokenize]) + (["lc"] if lowercase else [])
        self._sentence, self.name = (":".join([name, *marks]) for name in ("Sentence_BLEU", "Corpus_BLEU"))

    def _check_tokenizer(self) -> None:
        """Make the tokenizer before any model is asked."""
        try:
            _sacrebleu(self.tokenize, self.lowercase)
        except Exception as exc:  # a package or a download is missing
            why = " ".join(str(exc).split())
            raise UsageError(
                f"sacrebleu cannot make its tokenizer {self.tokenize!r}: {why}",
                hint=f'Run: pip install "{_NEEDED_PACKAGES[self.tokenize]}"',
            ) from exc

    @property
    def measures(self) -> Sequence[Measure]:
        """The mean over sentences, and the score of the summed statistics."""
        return (Measure(self._sentence, bounds=PERCENT), Measure(self.name, BLEU, PERCENT))

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Score one sentence, and return the statistics that it adds to the corpus."""
        scorer = _sacrebleu(self.tokenize, self.lowercase)
        scored = scorer.sentence_score(str(prediction), reference_texts(reference, "BLEU"))
        sums = (scored.sys_len, scored.ref_len, *scored.counts, *scored.totals)
        return {self._sentence: scored.score, self.name: tuple(float(part) for part in sums)}

    def __repr__(self) -> str:
        """Show the class and its settings."""
        return f"Bleu(tokenize={self.tokenize!r}, lowercase={self.lowercase})"
