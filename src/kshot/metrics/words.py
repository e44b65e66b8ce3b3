"""The words of a text, as question answering compares them, and how alike two texts are."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = re.compile(r"\b(?:a|an|the)\b")
"""The words that SQuAD's script leaves out."""

ARTICLES_AND_AND = re.compile(r"\b(?:a|an|the|and)\b")
"""The words that LLMBox leaves out."""


def normalise(text: Any, ignored: re.Pattern[str] = ARTICLES_AND_AND) -> str:
    """Return the text in lower case, without ASCII punctuation and ignored words, with one space between words."""
    bare = str(text).lower().translate(_NO_PUNCTUATION)
    return " ".join(ignored.sub(" ", bare).split())


def plain_words(text: Any) -> list[str]:
    """Return the words of SQuAD's normal form: in lower case, without ASCII punctuation and articles."""
    return normalise(text, ARTICLES).split()


def bag_f1(words: Sequence[str], gold: Sequence[str]) -> float:
    """Return F1 of two bags of words, from 0 to 1; 0 where either is empty."""
    common = (Counter(words) & Counter(gold)).total()
    if not common:
        return 0.0
    precision, recall = common / len(words), common / len(gold)
    return 2 * precision * recall / (precision + recall)


def edit_distance(left: str, right: str) -> int:
    """Return how many letters must be inserted, removed or changed."""
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.distance(left, right)


def likeness(left: str, right: str) -> int:
    """Return how alike two texts are, from 0 to 100: twice their longest common subsequence by their length."""
    from rapidfuzz.distance import LCSseq

    if left == right:
        return 100
    if not left or not right:
        return 0
    return round(200 * LCSseq.similarity(left, right) / (len(left) + len(right)))
