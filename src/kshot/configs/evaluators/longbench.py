"""Evaluators of LongBench and LV-Eval: word overlap, ROUGE, retrieved numbers, classes and lines of code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.scores import ByColumn, Points, text_of
from kshot.configs.evaluators.words import bare, chinese_cut, likeness, overlap, plain_words, rouge_l, words_in
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.metrics import Metric

_NUMBER = re.compile(r"\d+")
_PARAGRAPH = {"en": re.compile(r"Paragraph (\d+)"), "zh": re.compile(r"段落(\d+)")}
_KEYWORD_SHARE = {"en": 0.2, "zh": 0.4}
"""So many of the keyword's words must be in an answer of LV-Eval."""

_ENGLISH_STOP_WORDS = (
    "and to of in her was with for it from is that his he by she they or at because be on are their what as had "
    "were about being this who but have has when which does"
)
_CHINESE_STOP_WORDS = (
    "的 和 是 等 在 年 可以 为 与 ‰ 了 或 一种 月 c 至 日 有 进行 于 不 中 × 根据 小 由 亩 也 要 指 法 会 元 主要 "
    "以及 通过 首先 对 然后 号 以 所 后 丁 包括 无 将 用 能 形 方面 因素 位于 而 从 到 一定 用于 但 使用 让 "
    "具有 并 亿元 万元 上 类 基于 才 来 地 片 其他 个 或者 变得 时 给 你 使 条 受 已经 带 度"
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
        return 100 * max((overlap(words, self.words(each)) for each in reference), default=0.0)


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
        for each in reference:
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
        wanted = [self._number_in(each) for each in reference]
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
        for each in reference:
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
        for right in reference["answers"]:
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
        return super().rate(prediction, list(reference)[:1])


class KeywordOverlap(WordOverlap):
    """The same, but 0 for an answer that lacks the words of the keyword, which is the last reference."""

    evaluator = "LVEvalOPTF1Evaluator"

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Look for the keyword first."""
        first, keyword = reference[0], reference[-1]
        if self.language == "zh" and not keyword:
            keyword = first
        words = self.words(text_of(prediction, self.evaluator))
        if keyword and self._found(words, self.words(keyword)) < _KEYWORD_SHARE[self.language]:
            return 0.0
        return 100 * overlap(words, self.words(first))

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
        texts = [self._filtered(text) for text in (text_of(prediction, self.evaluator), reference[0])]
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
