"""Metrics of the overlap of a text with its references: BLEU, chrF and TER by sacrebleu, ROUGE by rouge_score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

from kshot.core.errors import UsageError
from kshot.core.metric import Measure
from kshot.metrics.aggregates import BLEU, TER as EDITS_PER_WORD, chrf, chrf_scorer
from kshot.metrics.metric import PERCENT, Metric, checked_choice, reference_texts

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
def bleu_scorer(tokenize: str, *, lowercase: bool = False) -> Any:
    """Return sacrebleu's BLEU, for sentences and corpora."""
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=True)


def bleu_sums(scored: Any) -> tuple[float, ...]:
    """Return what a sentence that sacrebleu scored adds to the sums of the corpus."""
    return tuple(map(float, (scored.sys_len, scored.ref_len, *scored.counts, *scored.totals)))


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
            bleu_scorer(self.tokenize, lowercase=self.lowercase)
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
        scorer = bleu_scorer(self.tokenize, lowercase=self.lowercase)
        scored = scorer.sentence_score(str(prediction), reference_texts(reference, "BLEU"))
        return {self._sentence: scored.score, self.name: bleu_sums(scored)}

    def __repr__(self) -> str:
        """Show the class and its settings."""
        return f"Bleu(tokenize={self.tokenize!r}, lowercase={self.lowercase})"


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
        scorer = chrf_scorer(self.char_order, self.word_order, self.beta)
        (counts,) = scorer._extract_corpus_statistics([str(prediction)], references)  # noqa: SLF001 - as above
        return {self.name: tuple(float(count) for count in counts)}


@cache
def _ter_scorer(*settings: bool) -> Any:
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
        scorer = _ter_scorer(self.normalized, self.no_punct, self.asian_support, self.case_sensitive)
        scored = scorer.sentence_score(str(prediction), reference_texts(reference, self.name))
        return {self.name: (float(scored.num_edits), float(scored.ref_length))}


_KINDS = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}
_LSUM = "rougeLsum"


@cache
def rouge_scorer(kinds: tuple[str, ...], *, stemmer: bool = False, split: bool = False) -> Any:
    """Return rouge_score's scorer of these kinds; ``split``: it finds sentences itself."""
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
        scorer = rouge_scorer(tuple(_KINDS.values()), stemmer=self.stemmer)
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
        scorer = rouge_scorer((_LSUM,), stemmer=self.stemmer, split=self.sentences == "nltk")
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
