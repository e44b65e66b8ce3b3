"""Evaluators of long contexts: LongBench, LV-Eval, NeedleBench, RULER, BABILong, MRCR, InfiniteBench."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from kshot.configs.evaluators.factories import Factory, plain, version_of, with_options
from kshot.configs.evaluators.scores import (
    RIGHT,
    WRONG,
    ByColumn,
    Points,
    RightOrWrong,
    RoundedPoints,
    SeesRows,
    listed,
    text_of,
    texts_of,
)
from kshot.configs.evaluators.summaries import bare, chinese_cut, rouge_l, words_in
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Sample, reference
from kshot.metrics import Metric
from kshot.metrics.words import bag_f1, edit_distance, likeness, plain_words

# ---- LongBench and LV-Eval ----

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


_PARTS = {"difficulty": ("easy", "hard"), "length": ("short", "medium", "long")}
"""The columns of LongBench v2 by which its figures are told apart."""


# ---- texts hidden in long contexts ----

_WITHOUT_KEYWORD = 0.2
"""What a likeness to the needle is worth in an answer that lacks its keyword."""
_SHORT, _LONG = 0.8, 1.2
"""A trimmed answer is at most so much longer than the needle, and ends there or before, but not before so much."""
_BETWEEN_WORDS = str.maketrans(dict.fromkeys("\n:\"'.,?!{}", " "))


class FoundNeedle(RightOrWrong):
    """Share of answers with the keyword, which stands after ``*`` in the reference."""

    def same(self, prediction: Any, reference: Any) -> bool:
        """Look for the keyword."""
        return _needle(reference)[1] in text_of(prediction, "NeedleBenchOriginEvaluator")


class NearNeedle(Points):
    """The same, where an answer without the keyword gets a fifth of its likeness to the needle."""

    def __init__(self, use_trim: bool = False) -> None:  # noqa: FBT001, FBT002 - the option of configs
        super().__init__()
        self.use_trim = bool(use_trim)

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare by edits, white space aside."""
        needle, keyword = _needle(reference)
        text = text_of(prediction, "NeedleBenchOriginEvaluator")
        if keyword in text:
            return RIGHT
        words, gold = "".join(text.split()), "".join(needle.split())
        if self.use_trim:
            words = _trimmed(words, gold)
        longest = max(len(words), len(gold))
        return _WITHOUT_KEYWORD * 100 * (1 - edit_distance(words, gold) / longest if longest else 1.0)


def _needle(reference: Any) -> tuple[str, str]:
    parts = str(reference).split("*")
    if len(parts) < 2:  # noqa: PLR2004 - the needle and its keyword
        raise DataError(f"NeedleBench wants the reference as text*keyword, not {reference!r:.80}")
    return parts[0], parts[1]


def _trimmed(text: str, needle: str) -> str:
    if not needle:
        raise DataError("NeedleBench cannot trim an answer to an empty needle", hint="Leave use_trim out.")
    short, kept = int(_SHORT * len(needle)), text[: int(_LONG * len(needle))]
    end = kept.find(needle[-1], short)
    return kept if end < 0 else kept[: end + 1]


class FoundByDepth(SeesRows, Points):
    """Share of answers with each of several keywords, by the depth at which it is hidden, and their mean.

    The reference is ``keyword*keyword#depth*depth``; the depths of the first row are those of all.
    """

    bounds = None  # a depth that is named twice counts twice

    def __init__(self) -> None:
        super().__init__("average_score")
        self._depths: list[int] = []

    def see(self, samples: Iterable[Sample]) -> None:
        """Read the depths of the first row."""
        first = next(iter(samples), None)
        if first is not None and first.target is not None:
            self._depths = _depths_in(reference(first.target))

    @property
    def names(self) -> tuple[str, ...]:
        """``Depth10`` and so on, then the mean of them."""
        return (*dict.fromkeys(f"Depth{depth}" for depth in self._depths), self.name)

    @property
    def details(self) -> tuple[str, ...]:
        """Those of single depths."""
        return self.names[:-1]

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Look for each keyword."""
        depths = self._depths = self._depths or _depths_in(reference)
        text = text_of(prediction, "NeedleBenchParallelEvaluator")
        found = {f"Depth{depth}": 0.0 for depth in depths}
        for keyword, depth in zip(str(reference).split("#")[0].split("*"), depths, strict=False):
            found[f"Depth{depth}"] += RIGHT if keyword in text else WRONG
        return {**found, self.name: sum(found.values()) / len(found)}


def _depths_in(reference: Any) -> list[int]:
    try:
        return [int(depth) for depth in str(reference).split("#")[1].split("*")]
    except (IndexError, ValueError):
        what = f"NeedleBenchParallelEvaluator wants the reference as keyword*…#depth*…, not {reference!r:.80}"
        raise DataError(what) from None


class FoundWords(Points):
    """Share of the keyword's words that are in an answer, letter case aside."""

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Look for each word."""
        parts = str(reference).split("*")
        if len(parts) != 2:  # noqa: PLR2004 - the answer and its keywords
            raise DataError(f"NeedleBenchMultiEvaluator wants the reference as text*keywords, not {reference!r:.80}")
        words, text = parts[1].lower().split(), text_of(prediction, "NeedleBenchMultiEvaluator").lower()
        return 100 * sum(word in text for word in words) / len(words) if words else 0.0


class SameTrimmed(RightOrWrong):
    """Share of answers equal to the reference, white space at the ends aside."""

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare the trimmed texts."""
        return text_of(prediction, "NeedleBenchATCEvaluator").strip() == str(reference).strip()


class AllReferences(RoundedPoints):
    """Share of the references that are in an answer, letter case aside (RULER)."""

    def points(self, prediction: Any, reference: Any) -> tuple[float, float]:
        """Look for each reference."""
        text = text_of(prediction, "RULER").lower()
        wanted = texts_of(reference, "RULER")
        return sum(each.lower() in text for each in wanted) / len(wanted), 1.0


class AnyReference(RoundedPoints):
    """Share of answers that have one of the references, letter case aside (RULER)."""

    def points(self, prediction: Any, reference: Any) -> tuple[float, float]:
        """Look for each reference."""
        text = text_of(prediction, "RULER").lower()
        return float(any(each.lower() in text for each in texts_of(reference, "RULER"))), 1.0


class InFirstSentence(RoundedPoints):
    """Share of answers with the first reference in their first sentence (BABILong)."""

    def points(self, prediction: Any, reference: Any) -> tuple[float, float]:
        """Look up to the first full stop, or an example that the model made up."""
        text = re.split(r"\.|<context>|<example>", text_of(prediction, "BabiLongEvaluator").lower())[0]
        return float(str(listed(reference)[0]).lower() in text), 1.0


class Recited(Points):
    """Likeness of an answer and the text to recite, of answers that begin with the prefix (MRCR)."""

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare what follows the prefix."""
        try:
            gold = json.loads(reference)
            answer, prefix = str(gold["answer"]), str(gold["prefix"])
        except (TypeError, ValueError, LookupError):
            what = f"MRCREvaluator wants JSON with answer and prefix as the reference, not {reference!r:.80}"
            raise DataError(what) from None
        text = text_of(prediction, "MRCREvaluator")
        if not text.startswith(prefix):
            return 0.0
        return 100 * difflib.SequenceMatcher(None, text[len(prefix) :], answer[len(prefix) :]).ratio()


class OneOfWords(RightOrWrong):
    """Share of answers of which one word is the reference (InfiniteBench)."""

    def same(self, prediction: Any, reference: Any) -> bool:
        """Look for it among the words."""
        return reference in text_of(prediction, "InfiniteBench").translate(_BETWEEN_WORDS).split()


class OneOfCapitals(OneOfWords):
    """The same for the first reference and words in capitals."""

    def same(self, prediction: Any, reference: Any) -> bool:
        """Look for it among the words."""
        words = text_of(prediction, "InfiniteBench").translate(_BETWEEN_WORDS).split()
        return reference[0] in [word.upper() for word in words]


class RightNumbers(Points):
    """How many numbers of an answer are right, one after the other, times 100 (InfiniteBench)."""

    bounds = None

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Count up to the first wrong one."""
        numbers = [int(each) for each in re.findall("[0-9]+", text_of(prediction, "InfiniteBench"))]
        right = 0
        for found, wanted in zip(numbers, reference, strict=False):
            if found != wanted:
                break
            right += 1
        return 100.0 * right


def _origin(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:
    """NeedleBench's first version, which only OpenCompass has, gives points for likeness too."""
    second = name.framework == "ais_bench" or version_of(name, scope, _ORIGINS) == "needlebench_v2"
    return FoundNeedle(**options) if second else NearNeedle(**options)


_ORIGINS = {
    version: f"opencompass.datasets.{version}.origin.NeedleBenchOriginEvaluator"
    for version in ("needlebench", "needlebench_v2")
}


EVALUATORS: dict[str, Factory] = {
    "LongBenchF1Evaluator": with_options(WordOverlap, "score"),
    "LongBenchRougeEvaluator": with_options(RougeOverlap, "score"),
    "LongBenchRetrievalEvaluator": with_options(RetrievedNumber, "score"),
    "LongBenchCountEvaluator": plain(CountedNumber),
    "LongBenchCodeSimEvaluator": plain(LineOfCode),
    "LongBenchClassificationEvaluator": plain(NamedClass),
    "LongBenchv2Evaluator": with_options(partial(ByColumn, "accuracy", _PARTS)),
    "LVEvalF1Evaluator": with_options(FirstOverlap, "f1"),
    "LVEvalOPTF1Evaluator": with_options(KeywordOverlap, "LVEval_f1"),
    "LVEvalOPTRougeEvaluator": with_options(FilteredRouge, "LVEval_rouge"),
    "NeedleBenchOriginEvaluator": _origin,
    "NeedleBenchParallelEvaluator": plain(FoundByDepth),
    "NeedleBenchMultiEvaluator": plain(FoundWords),
    **dict.fromkeys(("NeedleBenchATCEvaluator", "needlebench_atc_evaluator"), plain(SameTrimmed)),
    **{f"Ruler{kind}Evaluator": plain(AllReferences) for kind in ("Niah", "Vt", "Cwe", "Fwe")},
    "RulerQaEvaluator": plain(AnyReference),
    "BabiLongEvaluator": plain(InFirstSentence),
    "MRCREvaluator": plain(Recited),
    "InfiniteBenchretrievekvEvaluator": plain(OneOfWords),
    "InfiniteBenchendiaEvaluator": plain(OneOfCapitals),
    "InfiniteBenchmathcalcEvaluator": plain(RightNumbers),
}
