"""Evaluators of texts that may be worded freely, ROUGE and BLEU, and the words of two languages."""

from __future__ import annotations

import logging
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.cleanups.patterns import general_postprocess
from kshot.configs.evaluators.factories import Factory, either, plain
from kshot.configs.evaluators.scores import Points, summed
from kshot.configs.scope import Name, Scope
from kshot.core.errors import BackendError
from kshot.core.extras import import_package, require
from kshot.core.metric import Whole
from kshot.metrics import Metric, Rouge
from kshot.metrics.aggregates import BLEU
from kshot.metrics.metric import reference_texts
from kshot.metrics.overlap import bleu_scorer, bleu_sums, rouge_scorer
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


def resampled_rouge() -> Points:
    """Return F of rouge_score without a stemmer: the median of 1,000 means of samples drawn with repetition.

    The draws are those of numpy's older generator with the seed 0: for each of the four names in turn, 1,000 of them.
    """

    def rate(prediction: Any, reference: Any) -> Mapping[str, Any]:
        texts = reference_texts(reference, "RougeEvaluator")
        found = [rouge_scorer(_KINDS).score(text, str(prediction)) for text in texts]
        return {kind: 100 * max(float(scores[kind].fmeasure) for scores in found) for kind in _KINDS}

    medians = {kind: Whole(partial(_median, place)) for place, kind in enumerate(_KINDS)}
    return Points(_KINDS[0], rate, more=_KINDS[1:], aggregates=medians)


def _median(place: int, values: Sequence[float]) -> float:
    """Return the median of the means of the draws; that of many sorted values, which are a resample, is nearly it.

    The figure itself is computed from values in the order of the samples, which is not a sorted one.
    """
    table: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    if len(table) <= _MOST_KEPT:
        return float(np.median(_drawn(len(table))[place] @ table / len(table)))
    if (table[1:] >= table[:-1]).all():
        return float(table.mean())
    draws = next(islice(_draws(len(table)), place, None))
    return float(np.median([table[each].mean() for each in draws]))


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


def chinese_rouge() -> Points:
    """Return F of the package rouge_chinese: words by jieba, after the general clean-up."""
    cut = chinese_cut("JiebaRougeEvaluator")
    measure = import_package("JiebaRougeEvaluator", "rouge-chinese").Rouge()
    kinds = {"rouge1": "rouge-1", "rouge2": "rouge-2", "rougeL": "rouge-l"}

    def rate(prediction: Any, reference: Any) -> Mapping[str, Any]:
        found = " ".join(cut(general_postprocess(str(prediction)))) or "__no_prediction__"
        gold = " ".join(cut(general_postprocess(str(reference)))) or "__no_reference__"
        (scores,) = measure.get_scores([found], [gold])
        return {name: 100 * float(scores[kind]["f"]) for name, kind in kinds.items()}

    return Points("rouge1", rate, more=("rouge2", "rougeL"))


def _bleu(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    """Return BLEU of the whole corpus, by sacrebleu; with Flores-200, of the pieces that its model cuts."""
    flores = name.last == "BleuFloresEvaluator" and name.framework
    scorer = _flores_scorer(name.last) if flores else bleu_scorer("13a")

    def sums(prediction: Any, reference: Any) -> tuple[float, ...]:
        texts = [str(each) for each in reference] if isinstance(reference, (list, tuple)) else [str(reference)]
        return bleu_sums(scorer.sentence_score(str(prediction), texts))

    return summed("score" if name.framework else "BLEU", sums, BLEU)


def _flores_scorer(evaluator: str) -> Any:
    """Return the scorer whose tokenizer is a model of Flores-200; sacrebleu fetches the model once."""
    from sacrebleu.utils import SACREBLEU_DIR

    require(evaluator, "sentencepiece")
    try:
        return bleu_scorer("flores200")
    except (OSError, RuntimeError, ImportError, SystemExit) as exc:
        what = f"{evaluator} needs the model flores200 of sacrebleu, which cannot be fetched or read: {exc}"
        hint = f"sacrebleu fetches it once, into {SACREBLEU_DIR}/models."
        raise BackendError(what, hint=hint) from exc


EVALUATORS: dict[str, Factory] = {
    **dict.fromkeys(("BleuEvaluator", "BleuFloresEvaluator"), _bleu),
    "RougeEvaluator": either(Rouge, resampled_rouge),
    "JiebaRougeEvaluator": plain(chinese_rouge),
}
