"""Evaluators of long contexts: LongBench, LV-Eval, NeedleBench, RULER, BABILong, MRCR, InfiniteBench."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kshot.configs.evaluators.factories import Factory, compared, plain, version_of, with_options
from kshot.configs.evaluators.scores import (
    RIGHT,
    WRONG,
    BySubset,
    Points,
    Rate,
    RightOrWrong,
    SeesRows,
    listed,
    rounded,
    text_of,
    texts_of,
)
from kshot.configs.evaluators.summaries import bare, chinese_cut, rouge_l, words_in
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Row, Sample, reference
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


def word_f1(evaluator: str, language: str) -> Rate:
    """Return the function that gives F1 of the words of an answer and those of the best reference."""
    words_of = words_in(language, evaluator)

    def rate(prediction: Any, reference: Any) -> float:
        words = words_of(text_of(prediction, evaluator))
        return 100 * max((bag_f1(words, words_of(each)) for each in listed(reference)), default=0.0)

    return rate


def first_word_f1(evaluator: str, language: str) -> Rate:
    """Return the same for the first reference alone (LV-Eval)."""
    rate = word_f1(evaluator, language)
    return lambda prediction, reference: rate(prediction, list(listed(reference))[:1])


def keyword_f1(evaluator: str, language: str) -> Rate:
    """Return the same, but 0 for an answer that lacks the words of the keyword, which is the last reference."""
    words_of = words_in(language, evaluator)

    def rate(prediction: Any, reference: Any) -> float:
        texts = listed(reference)
        first, keyword = texts[0], texts[-1]
        if language == "zh" and not keyword:
            keyword = first
        words = words_of(text_of(prediction, evaluator))
        if keyword and found(words, words_of(keyword)) < _KEYWORD_SHARE[language]:
            return 0.0
        return 100 * bag_f1(words, words_of(first))

    def found(words: list[str], keyword: list[str]) -> float:
        if not keyword:
            raise DataError(f"{evaluator}: the keyword, the last reference, has no words")
        common = Counter(words) & Counter(keyword)
        return sum(count for word, count in common.items() if word not in _STOP_WORDS[language]) / len(keyword)

    return rate


def best_rouge(evaluator: str, language: str) -> Rate:
    """Return the function that gives ROUGE-L of an answer and the best reference."""
    rouge, cut = rouge_l(evaluator), chinese_cut(evaluator) if language == "zh" else None

    def rate(prediction: Any, reference: Any) -> float:
        text, best = text_of(prediction, evaluator), 0.0
        for each in listed(reference):
            gold = each
            if cut is not None:  # the answer is cut into words anew for each of them
                text, gold = " ".join(cut(text)), " ".join(cut(each))
            best = max(best, rouge(text, gold))
        return 100 * best

    return rate


def filtered_rouge(evaluator: str, language: str) -> Rate:
    """Return the function that gives ROUGE-L of an answer and the first reference without stop words (LV-Eval)."""
    rouge, cut = rouge_l(evaluator), chinese_cut(evaluator) if language == "zh" else None

    def rate(prediction: Any, reference: Any) -> float:
        return 100 * rouge(*map(filtered, (text_of(prediction, evaluator), listed(reference)[0])))

    def filtered(text: str) -> str:
        """Leave stop words out; Chinese punctuation becomes white space, which ROUGE tells from nothing."""
        words = plain_words(text) if cut is None else [bare(word) for word in cut(text)]
        return " ".join(word for word in words if word not in _STOP_WORDS[language])

    return rate


def retrieved_number(evaluator: str, language: str) -> Rate:
    """Return the function that gives the share of the numbers in a reply that are that of the right paragraph."""

    def number_in(reference: Any) -> str:
        found = _PARAGRAPH[language].search(str(reference))
        if found is None:
            raise DataError(f"{evaluator} finds no number of a paragraph in the reference {reference!r:.80}")
        return found[1]

    return lambda prediction, reference: _share_of_numbers(
        text_of(prediction, evaluator), [number_in(each) for each in listed(reference)]
    )


def counted_number(prediction: Any, reference: Any) -> float:
    """Return the share of the numbers in a reply that are the reference."""
    return _share_of_numbers(text_of(prediction, "LongBenchCountEvaluator"), list(map(str, listed(reference))))


def _share_of_numbers(text: str, wanted: Sequence[str]) -> float:
    numbers = _NUMBER.findall(text)
    return 100 * sum(numbers.count(each) / len(numbers) for each in wanted) if numbers else 0.0


def line_of_code(prediction: Any, reference: Any) -> float:
    """Return how alike the first line of code in a reply and the best reference are."""
    text, best = text_of(prediction, "LongBenchCodeSimEvaluator"), 0
    for each in listed(reference):  # further ones see the line alone
        lines = text.lstrip("\n").split("\n")
        text = next((line for line in lines if not any(sign in line for sign in ("`", "#", "//"))), "")
        best = max(best, likeness(text, each))
    return float(best)


def named_class(prediction: Any, reference: Any) -> float:
    """Return whether a reply names the right class, divided by the number of classes that it names."""
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


_PARTS = {"difficulty": ("easy", "hard"), "length": ("short", "medium", "long")}
"""The columns of LongBench v2 by which its figures are told apart."""


# ---- texts hidden in long contexts ----

_WITHOUT_KEYWORD = 0.2
"""What a likeness to the needle is worth in an answer that lacks its keyword."""
_SHORT, _LONG = 0.8, 1.2
"""A trimmed answer is at most so much longer than the needle, and ends there or before, but not before so much."""
_BETWEEN_WORDS = str.maketrans(dict.fromkeys("\n:\"'.,?!{}", " "))


def found_needle(prediction: Any, reference: Any) -> bool:
    """Whether an answer has the keyword, which stands after ``*`` in the reference."""
    return _needle(reference)[1] in text_of(prediction, "NeedleBenchOriginEvaluator")


def _near_needle(*, use_trim: bool = False) -> Points:
    """Return the same, where an answer without the keyword gets a fifth of its likeness to the needle."""

    def rate(prediction: Any, reference: Any) -> float:
        """Compare by edits, white space aside."""
        needle, keyword = _needle(reference)
        text = text_of(prediction, "NeedleBenchOriginEvaluator")
        if keyword in text:
            return RIGHT
        words, gold = "".join(text.split()), "".join(needle.split())
        if use_trim:
            words = _trimmed(words, gold)
        longest = max(len(words), len(gold))
        return _WITHOUT_KEYWORD * 100 * (1 - edit_distance(words, gold) / longest if longest else 1.0)

    return Points("score", rate)


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


class FoundByDepth(SeesRows):
    """Share of answers with each of several keywords, by the depth at which it is hidden, and their mean.

    The reference is ``keyword*keyword#depth*depth``; the depths of the first row are those of all. There is no scale: a
    depth that is named twice counts twice.
    """

    name = "average_score"
    names: tuple[str, ...] = ("average_score",)

    def __init__(self) -> None:
        self._depths: list[int] = []

    def see(self, samples: Iterable[Sample]) -> None:
        """Read the depths of the first row."""
        first = next(iter(samples), None)
        if first is not None and first.target is not None:
            self._find_depths(reference(first.target))

    def _find_depths(self, reference: Any) -> None:
        self._depths = _depths_in(reference)
        self.names = (*dict.fromkeys(f"Depth{depth}" for depth in self._depths), self.name)

    @property
    def details(self) -> tuple[str, ...]:
        """Those of single depths."""
        return self.names[:-1]

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Look for each keyword."""
        if not self._depths:
            self._find_depths(reference)
        text = text_of(prediction, "NeedleBenchParallelEvaluator")
        found = {f"Depth{depth}": 0.0 for depth in self._depths}
        for keyword, depth in zip(str(reference).split("#")[0].split("*"), self._depths, strict=False):
            found[f"Depth{depth}"] += RIGHT if keyword in text else WRONG
        return {**found, self.name: sum(found.values()) / len(found)}


def _depths_in(reference: Any) -> list[int]:
    try:
        return [int(depth) for depth in str(reference).split("#")[1].split("*")]
    except (IndexError, ValueError):
        what = f"NeedleBenchParallelEvaluator wants the reference as keyword*…#depth*…, not {reference!r:.80}"
        raise DataError(what) from None


def found_words(prediction: Any, reference: Any) -> float:
    """Return the share of the keyword's words that are in an answer, letter case aside."""
    parts = str(reference).split("*")
    if len(parts) != 2:  # noqa: PLR2004 - the answer and its keywords
        raise DataError(f"NeedleBenchMultiEvaluator wants the reference as text*keywords, not {reference!r:.80}")
    words, text = parts[1].lower().split(), text_of(prediction, "NeedleBenchMultiEvaluator").lower()
    return 100 * sum(word in text for word in words) / len(words) if words else 0.0


def same_trimmed(prediction: Any, reference: Any) -> bool:
    """Whether an answer equals the reference, white space at the ends aside."""
    return text_of(prediction, "NeedleBenchATCEvaluator").strip() == str(reference).strip()


def all_references(prediction: Any, reference: Any) -> float:
    """Return the share of the references that are in an answer, letter case aside (RULER)."""
    text = text_of(prediction, "RULER").lower()
    wanted = texts_of(reference, "RULER")
    return sum(each.lower() in text for each in wanted) / len(wanted)


def any_reference(prediction: Any, reference: Any) -> bool:
    """Whether an answer has one of the references, letter case aside (RULER)."""
    text = text_of(prediction, "RULER").lower()
    return any(each.lower() in text for each in texts_of(reference, "RULER"))


def in_first_sentence(prediction: Any, reference: Any) -> bool:
    """Whether the first reference stands before the first full stop or made-up example of an answer (BABILong)."""
    text = re.split(r"\.|<context>|<example>", text_of(prediction, "BabiLongEvaluator").lower())[0]
    return str(listed(reference)[0]).lower() in text


def recited(prediction: Any, reference: Any) -> float:
    """Return the likeness of an answer and the text to recite, both after the prefix; 0 for one without it (MRCR)."""
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


def one_of_words(prediction: Any, reference: Any) -> bool:
    """Whether one word of an answer is the reference (InfiniteBench)."""
    return reference in text_of(prediction, "InfiniteBench").translate(_BETWEEN_WORDS).split()


def one_of_capitals(prediction: Any, reference: Any) -> bool:
    """Whether one word of an answer, in capitals, is the first reference (InfiniteBench)."""
    words = text_of(prediction, "InfiniteBench").translate(_BETWEEN_WORDS).split()
    return reference[0] in [word.upper() for word in words]


def right_numbers(prediction: Any, reference: Any) -> float:
    """Return how many numbers of an answer are right up to the first wrong one, times 100 (InfiniteBench)."""
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
    return RightOrWrong("score", found_needle, **options) if second else _near_needle(**options)


_ORIGINS = {
    version: f"opencompass.datasets.{version}.origin.NeedleBenchOriginEvaluator"
    for version in ("needlebench", "needlebench_v2")
}


def _in_language(
    evaluator: str, name: str, rate: Callable[[str, str], Rate], bounds: tuple[float, float] | None = (WRONG, RIGHT)
) -> tuple[str, Factory]:
    """Return an evaluator of English or Chinese text, with its name."""

    def make(language: str = "en") -> Points:
        if language not in _PARAGRAPH:
            raise DataError(f"{evaluator} has language={language!r}", hint="Give 'en' or 'zh'.")
        return Points(name, rate(evaluator, language), bounds)

    return evaluator, with_options(make)


def _parts_of(gold: Any, row: Row) -> list[str]:  # noqa: ARG001 - the row says it
    """Return the figures of LongBench v2 to which a row belongs."""
    return [f"accuracy_{row.get(column)}" for column, values in _PARTS.items() if row.get(column) in values]


EVALUATORS: dict[str, Factory] = dict(
    (
        _in_language("LongBenchF1Evaluator", "score", word_f1),
        _in_language("LongBenchRougeEvaluator", "score", best_rouge),
        _in_language("LongBenchRetrievalEvaluator", "score", retrieved_number, None),  # each reference adds its share
        _in_language("LVEvalF1Evaluator", "f1", first_word_f1),
        _in_language("LVEvalOPTF1Evaluator", "LVEval_f1", keyword_f1),
        _in_language("LVEvalOPTRougeEvaluator", "LVEval_rouge", filtered_rouge),
    )
) | {
    "LongBenchCountEvaluator": plain(Points, "score", counted_number, None),
    "LongBenchCodeSimEvaluator": plain(Points, "score", line_of_code),
    "LongBenchClassificationEvaluator": plain(Points, "score", named_class, None),  # each reference adds its share
    "LongBenchv2Evaluator": with_options(BySubset, "accuracy", _parts_of),
    "NeedleBenchOriginEvaluator": _origin,
    "NeedleBenchParallelEvaluator": plain(FoundByDepth),
    "NeedleBenchMultiEvaluator": plain(Points, "score", found_words),
    **dict.fromkeys(("NeedleBenchATCEvaluator", "needlebench_atc_evaluator"), compared(same_trimmed, "score")),
    **{f"Ruler{kind}Evaluator": plain(rounded, "score", all_references) for kind in ("Niah", "Vt", "Cwe", "Fwe")},
    "RulerQaEvaluator": plain(rounded, "score", any_reference),
    "BabiLongEvaluator": plain(rounded, "score", in_first_sentence),
    "MRCREvaluator": plain(Points, "score", recited),
    "InfiniteBenchretrievekvEvaluator": compared(one_of_words, "score"),
    "InfiniteBenchendiaEvaluator": compared(one_of_capitals, "score"),
    "InfiniteBenchmathcalcEvaluator": plain(Points, "score", right_numbers, None),
}
