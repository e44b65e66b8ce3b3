"""Evaluators of texts hidden in long contexts: NeedleBench, RULER, BABILong, MRCR, InfiniteBench."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kshot.configs.evaluators.factories import Factory, plain, version_of
from kshot.configs.evaluators.scores import (
    RIGHT,
    WRONG,
    Points,
    RightOrWrong,
    RoundedPoints,
    SeesRows,
    listed,
    text_of,
    texts_of,
)
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Sample, reference
from kshot.metrics import Metric
from kshot.metrics.words import edit_distance

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

    def __repr__(self) -> str:
        """Show the class alone: the depths are the rows'."""
        return f"{type(self).__name__}()"

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
