"""English and Chinese words of a text, and ROUGE-L of two texts, by packages that kshot does not need otherwise."""

from __future__ import annotations

import logging
import string
from collections.abc import Callable
from typing import Any

from kshot.core.errors import DataError
from kshot.core.extras import import_package
from kshot.metrics.words import plain_words

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
    """Return the function that gives the words of a text which are compared: English or Chinese ones."""
    if language == "en":
        return plain_words
    if language != "zh":
        raise DataError(f"{purpose} has language={language!r}", hint="Give 'en' or 'zh'.")
    cut = chinese_cut(purpose)

    def words(text: str) -> list[str]:
        return [word for word in map(bare, cut(text)) if word]

    return words


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
