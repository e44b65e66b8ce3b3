"""Evaluators of texts that may be worded freely, ROUGE and BLEU, and the words of two languages."""

from __future__ import annotations

import logging
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.cleanups.patterns import general_postprocess
from kshot.configs.evaluators.factories import Factory, either, plain
from kshot.configs.evaluators.scores import MeasureFamily
from kshot.configs.scope import Name, Scope
from kshot.core.errors import BackendError
from kshot.core.extras import import_package, require
from kshot.core.metric import Aggregate, Whole
from kshot.metrics import Metric, Rouge
from kshot.metrics.aggregates import BLEU
from kshot.metrics.metric import reference_texts
from kshot.metrics.words import plain_words

# ---- words of two languages ----

_WIDE_SIGNS = (
    "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿"
    "–—‘’‛“”„‟…‧﹏"
)
_ALL_SIGNS = str.maketrans("", "", string.punctuation + _WIDE_SIGNS)

Cut = Callable[[str], list[str]]


def bare(text: str) -> str:
    """Return a text in small letters, without white space and the punctuation of either script."""
    return "".join(text.lower().translate(_ALL_SIGNS).split())


def chinese_cut(purpose: str) -> Cut:
    """Return the function that cuts a text into words, by the package jieba."""
    jieba = import_package(purpose, "jieba")
    jieba.setLogLevel(logging.WARNING)  # else it tells of its dictionary

    def cut(text: str) -> list[str]:
        return [str(word) for word in jieba.cut(text, cut_all=False)]

    return cut


def words_in(language: str, purpose: str) -> Cut:
    """Return the function that gives the words of a text which are compared; ``language``: en or zh."""
    if language == "en":
        return plain_words
    cut = chinese_cut(purpose)
    return lambda text: [word for word in map(bare, cut(text)) if word]


def rouge_l(purpose: str) -> Callable[[str, str], float]:
    """Return the function that gives ROUGE-L's F of two texts by the package rouge; 0 where that cannot compute it."""
    package: Any = import_package(purpose, "rouge")
    measure = package.Rouge()

    def score(prediction: str, reference: str) -> float:
        try:
            return float(measure.get_scores([prediction], [reference], avg=True)["rouge-l"]["f"])
        except Exception:  # noqa: BLE001 - it raises for texts without words, and for very long ones
            return 0.0

    return score


# ---- figures of two texts ----

_KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
_RESAMPLES, _SEED = 1000, 0
_MOST_KEPT = 2000
"""For so many samples the draws are kept: 8 MB for each of the four."""


class ResampledRouge(MeasureFamily):
    """F of rouge_score without a stemmer. The figure is the median of 1,000 means of samples drawn with repetition.

    The draws are those of numpy's older generator with the seed 0: for each of the four names in turn, 1,000 of them.
    """

    name = "rouge1"
    bounds = (0.0, 100.0)
    names = _KINDS

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Compare with a text, or with the best of several."""
        found = [_scorer().score(text, str(prediction)) for text in reference_texts(reference, "RougeEvaluator")]
        return {kind: 100 * max(float(scores[kind].fmeasure) for scores in found) for kind in _KINDS}

    def aggregate(self, name: str) -> Aggregate:
        """Return the median of the means of the draws."""
        return Whole(partial(self._median, name))

    def _median(self, name: str, values: Sequence[float]) -> float:
        """Return the median of the means of the draws; that of many sorted values, which are a resample, is nearly it.

        The figure itself is computed from values in the order of the samples, which is not a sorted one.
        """
        table: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
        if len(table) <= _MOST_KEPT:
            return float(np.median(_drawn(len(table))[_KINDS.index(name)] @ table / len(table)))
        if (table[1:] >= table[:-1]).all():
            return float(table.mean())
        draws = next(islice(_draws(len(table)), _KINDS.index(name), None))
        return float(np.median([table[each].mean() for each in draws]))


@cache
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(_KINDS), use_stemmer=False)


def _draws(size: int) -> Iterator[NDArray[np.int64]]:
    """Yield the draws of the four figures in turn, 1,000 rows each; ``choice`` of that generator draws the same."""
    generator = np.random.RandomState(_SEED)
    for _ in _KINDS:
        yield generator.randint(0, size, size=(_RESAMPLES, size))


@lru_cache(maxsize=4)
def _drawn(size: int) -> NDArray[np.float32]:
    """Return how often each sample is drawn, by figure and draw."""
    rows = [np.bincount(draw, minlength=size) for draws in _draws(size) for draw in draws]
    return np.stack(rows).astype(np.float32).reshape(len(_KINDS), _RESAMPLES, size)


class ChineseRouge(MeasureFamily):
    """F of the package rouge_chinese: words by jieba, after the general clean-up; a text without words is a word."""

    name = "rouge1"
    bounds = (0.0, 100.0)
    names = ("rouge1", "rouge2", "rougeL")

    def __init__(self) -> None:
        self._cut = chinese_cut("JiebaRougeEvaluator")
        self._measure = import_package("JiebaRougeEvaluator", "rouge-chinese").Rouge()

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Compare two texts."""
        found = " ".join(self._cut(general_postprocess(str(prediction)))) or "__no_prediction__"
        gold = " ".join(self._cut(general_postprocess(str(reference)))) or "__no_reference__"
        (scores,) = self._measure.get_scores([found], [gold])
        kinds = zip(self.names, ("rouge-1", "rouge-2", "rouge-l"), strict=True)
        return {name: 100 * float(scores[kind]["f"]) for name, kind in kinds}


class PlainBleu(MeasureFamily):
    """BLEU of the whole corpus, by sacrebleu."""

    name = "BLEU"
    bounds = (0.0, 100.0)

    def __init__(self, tokenizer: str | None = None) -> None:
        from sacrebleu.metrics.bleu import BLEU as SACREBLEU

        self.tokenizer = tokenizer
        self._bleu = SACREBLEU(effective_order=True, tokenize=tokenizer)

    def aggregate(self, name: str) -> Aggregate:  # noqa: ARG002 - there is one name
        """Return the score of the summed counts."""
        return BLEU

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Return what one reply adds to the sums of the corpus."""
        texts = [str(each) for each in reference] if isinstance(reference, (list, tuple)) else [str(reference)]
        scored = self._bleu.sentence_score(str(prediction), texts)
        return {self.name: tuple(float(x) for x in (scored.sys_len, scored.ref_len, *scored.counts, *scored.totals))}


def _flores_bleu(evaluator: str) -> PlainBleu:
    """Return BLEU of the pieces that a model of Flores-200 cuts; sacrebleu fetches the model once."""
    from sacrebleu.utils import SACREBLEU_DIR

    require(evaluator, "sentencepiece")
    try:
        return PlainBleu("flores200")
    except (OSError, RuntimeError, ImportError, SystemExit) as exc:
        what = f"{evaluator} needs the model flores200 of sacrebleu, which cannot be fetched or read: {exc}"
        hint = f"sacrebleu fetches it once, into {SACREBLEU_DIR}/models."
        raise BackendError(what, hint=hint) from exc


def _bleu(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    metric = _flores_bleu(name.last) if name.last == "BleuFloresEvaluator" and name.framework else PlainBleu()
    metric.name = "score" if name.framework else metric.name
    return metric


EVALUATORS: dict[str, Factory] = {
    **dict.fromkeys(("BleuEvaluator", "BleuFloresEvaluator"), _bleu),
    "RougeEvaluator": either(Rouge, ResampledRouge),
    "JiebaRougeEvaluator": plain(ChineseRouge),
}
