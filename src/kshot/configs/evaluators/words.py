"""Words of a text, as question answering compares them, and how alike two texts are."""

from __future__ import annotations

import logging
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from kshot.core.errors import DataError
from kshot.core.extras import import_package

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_ASCII_SIGNS = str.maketrans("", "", string.punctuation)
_WIDE_SIGNS = (
    "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿"
    "–—‘’‛“”„‟…‧﹏"
)
_ALL_SIGNS = str.maketrans("", "", string.punctuation + _WIDE_SIGNS)

Cut = Callable[[str], list[str]]


def plain_words(text: str) -> list[str]:
    """Return the words in small letters, without ASCII punctuation and articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_ASCII_SIGNS)).split()


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


def overlap(words: Sequence[str], gold: Sequence[str]) -> float:
    """Return F1 of two bags of words, from 0 to 1."""
    common = (Counter(words) & Counter(gold)).total()
    if not common:
        return 0.0
    precision, recall = common / len(words), common / len(gold)
    return 2 * precision * recall / (precision + recall)


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


def likeness(left: str, right: str) -> int:
    """Return how alike two texts are, from 0 to 100: twice their longest common subsequence by their length."""
    if left == right:
        return 100
    if not left or not right:
        return 0
    return round(200 * _common_length(left, right) / (len(left) + len(right)))


def _common_length(left: str, right: str) -> int:
    """Return the length of the longest common subsequence, many letters of the left text at once (Hyyrö's bits)."""
    places: dict[str, int] = {}
    for at, letter in enumerate(left):
        places[letter] = places.get(letter, 0) | 1 << at
    full = (1 << len(left)) - 1
    free = full
    for letter in right:
        taken = free & places.get(letter, 0)
        free = ((free + taken) | (free - taken)) & full
    return len(left) - free.bit_count()
