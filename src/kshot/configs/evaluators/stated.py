"""Evaluators that look for the answer which a reply states: options by likeness, L-Eval's code and novels, MMMU."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable, Mapping
from typing import Any

from kshot.cleanups.first_option import first_option_postprocess
from kshot.configs.evaluators.basic import edit_distance
from kshot.configs.evaluators.factories import Factory, plain
from kshot.configs.evaluators.scores import RightOrWrong, text_of
from kshot.configs.evaluators.tallies import Counts, Tally, gold_of
from kshot.configs.evaluators.words import plain_words
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Row, Sample, Value
from kshot.metrics import Metric

# ---- the option that a reply is nearest to ----


class NearestOption(RightOrWrong):
    """Share of replies that choose the right option; a column of the row has the text of each option."""

    def __init__(self, options: Iterable[str]) -> None:
        super().__init__("accuracy")
        self.options = tuple(options)
        if not all(isinstance(each, str) and len(each) == 1 and each.isupper() for each in self.options):
            raise DataError(f"options must be single capital letters, not {self.options!r:.80}")

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value]:
        """Choose by the row, and compare."""
        chosen = self.chosen(text_of(answer, "OptionSimAccEvaluator"), sample.fields)
        return {self.name: self.rate(chosen, gold_of(sample))}

    def chosen(self, reply: str, row: Row) -> str:
        """Return the option that is stated, or the only one whose text is in the reply, or the most alike one."""
        reply = reply.strip()
        stated = reply if reply in self.options else first_option_postprocess(reply, "".join(self.options), False)  # noqa: FBT003
        if stated:
            return stated
        missing = [each for each in self.options if each not in row]
        if missing:
            raise DataError(f"the row has no column {missing[0]!r}", hint="Each option has a column with its text.")
        texts = {each: str(row[each]) for each in self.options if row[each] is not None}
        held = [each for each, text in texts.items() if text.lower() in reply.lower()]
        if len(held) == 1:
            return held[0]
        near = [
            (min(edit_distance(reply, form) for form in (each, text, f"{each}. {text}")), each)
            for each, text in texts.items()
        ]
        return min(near)[1] if near else ""


def _nearest(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    return NearestOption(options.get("options") or "ABCD")


# ---- L-Eval ----

_FILLERS = ("will be", "of the code", "is", "would be", "the value of", "the result of", "printed")
_REWRITTEN = ((",", ""), ("'", ""), ("\\", ""), (".0", ""), ("] [", "]["), ("[ [", "[["), ("] ]", "]]"))
_FINAL = "the final output"
_WORDS_AROUND = 3


class CodeOutput(RightOrWrong):
    """Share of replies that state what a program prints, in a few words (Code U)."""

    def __init__(self) -> None:
        super().__init__("accuracy")

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare the words after ``the final output``, or the last ones, with the reference."""
        wanted, size = str(reference), len(str(reference).split()) + _WORDS_AROUND
        reply = _output(text_of(prediction, "CodeUEvaluator"))
        for filler in _FILLERS:
            reply = reply.replace(filler, "")
        _, found, rest = reply.rpartition(_FINAL)
        words = re.split(r"\s+", rest)[:size] if found else re.split(r"\s+", reply)[-size:]
        return plain_words(" ".join(words)) == plain_words(_output(wanted))


def _output(text: str) -> str:
    text = re.sub(r"\s+", " ", text)
    for old, new in _REWRITTEN:
        text = text.replace(old, new)
    return text.strip()


class Loyalty(RightOrWrong):
    """Share of replies that rightly call a statement true or false by the novel, not by the facts (Sci-Fi)."""

    def __init__(self) -> None:
        super().__init__("accuracy")

    def same(self, prediction: Any, reference: Any) -> bool:
        """Compare the first ``true`` or ``false`` of both; a word of its own goes before a part of one."""
        said = text_of(prediction, "SciFiEvaluator").lower().split("[fact:")[0].split()
        bare = [word.strip(".,;:!") for word in said]
        stated = next((word for word in bare if word in ("true", "false")), None) or _first_verdict(said)
        return stated is not None and stated == _first_verdict(str(reference).lower().split())


def _first_verdict(words: list[str]) -> str | None:
    return next(("true" if "true" in word else "false" for word in words if "true" in word or "false" in word), None)


# ---- MMMU ----

_MARK = "<|im_end|>"
_STATED = (
    re.compile(r"^answer\s*:\s*([a-z\d ,]+)\s*(?:$|\.)", re.IGNORECASE | re.MULTILINE),
    re.compile(r"answer\s*:\s*([a-z\d ,]+)(?:\W|$)", re.IGNORECASE),
)
_MUCH_SPACE = re.compile(r"(\s)\1{30,}")
_OPEN = re.compile(r"ANSWER:\s*(.*)")
_CHOICE = "multiple-choice"


class ManySubjects(Tally):
    """Share of right answers, in all and by category of the reference, for each split (MMMU)."""

    def __init__(self) -> None:
        self._groups: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Show the class alone: the groups are the rows'."""
        return f"{type(self).__name__}()"

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the splits, each before its categories."""
        return self._groups

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the categories that there are."""
        self._groups = tuple(sorted({name for each in samples for name in _groups(gold_of(each))}, key=_order))

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Count right answers and all, in every group."""
        gold, right = gold_of(sample), float(_is_right(text_of(answer, "MMMUEvaluator"), gold_of(sample)))
        own = _groups(gold)
        return tuple(own.count(name) * value for name in self._groups for value in (right, 1.0))

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the share of each group that has a sample."""
        pairs = zip(self._groups, sums[::2], sums[1::2], strict=True)
        return {name: 100 * right / total for name, right, total in pairs if total}


def _told(gold: Any) -> Mapping[str, Any]:
    return gold if isinstance(gold, Mapping) else {"answer": gold}


def _groups(gold: Any) -> list[str]:
    told = _told(gold)
    category = told.get("category") or told.get("subject") or "Unknown"
    part = told.get("l2-category") or told.get("subfield") or category
    return [f"[{told.get('split') or 'validation'}]: {name}" for name in ("Overall", category, part)]


def _order(name: str) -> tuple[int, bool, str]:
    split, _, task = name.partition(": ")
    return {"[validation]": 0, "[dev]": 1}.get(split, 2), task != "Overall", task


def _is_right(reply: str, gold: Any) -> bool:
    told, reply = _told(gold), reply.replace(_MARK, "")
    wanted = str(told.get("answer", "")).strip()
    if told.get("type") != _CHOICE:
        stated = _OPEN.search(reply)
        return (stated[1] if stated else reply).strip().lower() == wanted.lower()
    choices = told.get("choices", {})
    return _choice(reply, len(json.loads(choices) if isinstance(choices, str) else choices)) == wanted


def _choice(reply: str, size: int) -> str:
    """Return the option after ``ANSWER:``; where no line has that, the last capital letter."""
    reply = _MUCH_SPACE.sub(r"\1" * 30, reply)
    stated = next((found for form in _STATED if (found := form.search(reply))), None)
    if stated is None:
        return next((letter for letter in reversed(reply) if letter.isupper()), "")
    letters = string.ascii_uppercase[:size]
    named = stated[1].strip()
    return named if named in {*letters, *map(str, range(1, size - len(letters) + 1))} else ""


# ---- no rule at all ----


class AlwaysOne(RightOrWrong):
    """1 for every reply, whatever it says: AISBench compares nothing (MMCustom)."""

    bounds = (0.0, 1.0)

    def __init__(self) -> None:
        super().__init__("accuracy")

    def rate(self, prediction: Any, reference: Any, /) -> float:  # noqa: ARG002 - no rule looks at them
        """Return 1."""
        return 1.0


EVALUATORS: dict[str, Factory] = {
    "OptionSimAccEvaluator": _nearest,
    "CodeUEvaluator": plain(CodeOutput),
    "SciFiEvaluator": plain(Loyalty),
    "MMMUEvaluator": plain(ManySubjects),
    "MMCustomEvaluator": plain(AlwaysOne),
}
