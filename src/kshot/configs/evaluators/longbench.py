"""Evaluators of LongBench and LV-Eval: word overlap, ROUGE, retrieved numbers, classes and lines of code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.scores import ByColumn, Points, listed, text_of
from kshot.configs.evaluators.words import bare, chinese_cut, rouge_l, words_in
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.metrics import Metric
from kshot.metrics.words import bag_f1, likeness, plain_words

_NUMBER = re.compile(r"\d+")
_PARAGRAPH = {"en": re.compile(r"Paragraph (\d+)"), "zh": re.compile(r"段落(\d+)")}
_KEYWORD_SHARE = {"en": 0.2, "zh": 0.4}
"""So many of the keyword's words must be in an answer of LV-Eval."""

_ENGLISH_STOP_WORDS = (
    "about and are as at be because being but by does for from had has have he her his in is it of on or "
    "she that their they this to was were what when which who with"
)
_CHINESE_STOP_WORDS = (
    "c × ‰ 一定 一种 丁 万元 上 不 与 个 中 为 主要 也 了 于 亩 亿元 从 以 以及 会 但 位于 你 使 "
    "使用 元 其他 具有 到 包括 受 变得 可以 号 后 和 因素 在 地 基于 对 将 小 已经 带 年 并 度 形 或 "
    "或者 所 才 指 方面 无 日 时 是 月 有 条 来 根据 法 然后 片 用 用于 由 的 等 类 给 而 能 至 要 让 "
    "进行 通过 首先"
)
_STOP_WORDS = {"en": frozenset(_ENGLISH_STOP_WORDS.split()), "zh": frozenset(_CHINESE_STOP_WORDS.split())}


class _InLanguage(Points):
    """A metric of English or Chinese text."""

    evaluator = ""

    def __init__(self, name: str = "score", language: str = "en") -> None:
        super().__init__(name)
        if language not in _PARAGRAPH:
            raise DataError(f"{self.evaluator} has language={language!r}", hint="Give 'en' or 'zh'.")
        self.language = language

    def __repr__(self) -> str:
        """Show the settings."""
        return f"{type(self).__name__}({self.name!r}, {self.language!r})"


class WordOverlap(_InLanguage):
    """F1 of the words of an answer and those of the best reference."""

    evaluator = "LongBenchF1Evaluator"

    def __init__(self, name: str = "score", language: str = "en") -> None:
        super().__init__(name, language)
        self.words = words_in(language, self.evaluator)

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare with every reference."""
        words = self.words(text_of(prediction, self.evaluator))
        return 100 * max((bag_f1(words, self.words(each)) for each in listed(reference)), default=0.0)


class RougeOverlap(_InLanguage):
    """ROUGE-L of an answer and the best reference."""

    evaluator = "LongBenchRougeEvaluator"

    def __init__(self, name: str = "score", language: str = "en") -> None:
        super().__init__(name, language)
        self.rouge = rouge_l(self.evaluator)
        self.cut = chinese_cut(self.evaluator) if language == "zh" else None

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare with every reference; in Chinese the answer is cut into words anew for each of them."""
        text, best = text_of(prediction, self.evaluator), 0.0
        for each in listed(reference):
            gold = each
            if self.cut is not None:
                text, gold = " ".join(self.cut(text)), " ".join(self.cut(each))
            best = max(best, self.rouge(text, gold))
        return 100 * best


class RetrievedNumber(_InLanguage):
    """Share of the numbers in a reply that are the number of the right paragraph."""

    evaluator = "LongBenchRetrievalEvaluator"
    bounds = None  # each reference adds its share

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Count the right ones of all numbers."""
        numbers = _NUMBER.findall(text_of(prediction, self.evaluator))
        wanted = [self._number_in(each) for each in listed(reference)]
        return 100 * sum(numbers.count(each) / len(numbers) for each in wanted) if numbers else 0.0

    def _number_in(self, reference: Any) -> str:
        found = _PARAGRAPH[self.language].search(str(reference))
        if found is None:
            raise DataError(f"{self.evaluator} finds no number of a paragraph in the reference {reference!r:.80}")
        return found[1]


class CountedNumber(RetrievedNumber):
    """Share of the numbers in a reply that are the reference."""

    evaluator = "LongBenchCountEvaluator"

    def __init__(self) -> None:
        super().__init__()

    def _number_in(self, reference: Any) -> str:
        return str(reference)


class LineOfCode(Points):
    """How alike the first line of code in a reply and the best reference are."""

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare with every reference; further ones see the line alone."""
        text, best = text_of(prediction, "LongBenchCodeSimEvaluator"), 0
        for each in listed(reference):
            lines = text.lstrip("\n").split("\n")
            text = next((line for line in lines if not any(sign in line for sign in ("`", "#", "//"))), "")
            best = max(best, likeness(text, each))
        return float(best)


class NamedClass(Points):
    """Whether a reply names the right class, divided by the number of classes that it names."""

    bounds = None  # each reference adds its share

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Look for the names of all classes."""
        if not isinstance(reference, Mapping) or not {"answers", "all_classes"} <= set(reference):
            what = f"LongBenchClassificationEvaluator wants answers and all_classes as reference, not {reference!r:.80}"
            raise DataError(what)
        text = text_of(prediction, "LongBenchClassificationEvaluator")
        points = 0.0
        for right in listed(reference["answers"]):
            named = _without_parts([name for name in reference["all_classes"] if name in text], right)
            points += 1 / len(named) if right in named else 0.0
        return 100 * points


def _without_parts(named: list[str], right: str) -> list[str]:
    """Take out names that are a part of the right one; the name after such a one is not looked at."""
    at = 0
    while at < len(named):
        if named[at] in right and named[at] != right:
            named.remove(named[at])
        at += 1
    return named


class FirstOverlap(WordOverlap):
    """F1 of the words of an answer and those of the first reference (LV-Eval)."""

    evaluator = "LVEvalF1Evaluator"

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare with the first reference alone."""
        return super().rate(prediction, list(listed(reference))[:1])


class KeywordOverlap(WordOverlap):
    """The same, but 0 for an answer that lacks the words of the keyword, which is the last reference."""

    evaluator = "LVEvalOPTF1Evaluator"

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Look for the keyword first."""
        texts = listed(reference)
        first, keyword = texts[0], texts[-1]
        if self.language == "zh" and not keyword:
            keyword = first
        words = self.words(text_of(prediction, self.evaluator))
        if keyword and self._found(words, self.words(keyword)) < _KEYWORD_SHARE[self.language]:
            return 0.0
        return 100 * bag_f1(words, self.words(first))

    def _found(self, words: list[str], keyword: list[str]) -> float:
        if not keyword:
            raise DataError(f"{self.evaluator}: the keyword, the last reference, has no words")
        common = Counter(words) & Counter(keyword)
        stop_words = _STOP_WORDS[self.language]
        return sum(count for word, count in common.items() if word not in stop_words) / len(keyword)


class FilteredRouge(RougeOverlap):
    """ROUGE-L of an answer and the first reference, both without stop words (LV-Eval)."""

    evaluator = "LVEvalOPTRougeEvaluator"

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare with the first reference alone."""
        texts = [self._filtered(text) for text in (text_of(prediction, self.evaluator), listed(reference)[0])]
        return 100 * self.rouge(*texts)

    def _filtered(self, text: str) -> str:
        """Leave stop words out; Chinese punctuation becomes white space, which ROUGE tells from nothing."""
        words = plain_words(text) if self.cut is None else [bare(word) for word in self.cut(text)]
        return " ".join(word for word in words if word not in _STOP_WORDS[self.language])


def _in_language(metric: type[_InLanguage], figure: str = "score") -> Factory:
    def make(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
        return metric(figure, **options)

    return make


def _long_bench_2(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    columns = {"difficulty": ("easy", "hard"), "length": ("short", "medium", "long")}
    return ByColumn("accuracy", columns, **options)


EVALUATORS: dict[str, Factory] = {
    "LongBenchF1Evaluator": _in_language(WordOverlap),
    "LongBenchRougeEvaluator": _in_language(RougeOverlap),
    "LongBenchRetrievalEvaluator": _in_language(RetrievedNumber),
    "LongBenchCountEvaluator": plain(CountedNumber),
    "LongBenchCodeSimEvaluator": plain(LineOfCode),
    "LongBenchClassificationEvaluator": plain(NamedClass),
    "LongBenchv2Evaluator": _long_bench_2,
    "LVEvalF1Evaluator": _in_language(FirstOverlap, "f1"),
    "LVEvalOPTF1Evaluator": _in_language(KeywordOverlap, "LVEval_f1"),
    "LVEvalOPTRougeEvaluator": _in_language(FilteredRouge, "LVEval_rouge"),
}
