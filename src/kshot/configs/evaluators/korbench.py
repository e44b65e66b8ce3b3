"""The evaluator of KOR-Bench: answers in double brackets, compared by the rule that a question is about."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kshot.cleanups.literals import NO_VALUE, computed
from kshot.configs.evaluators.factories import Factory
from kshot.configs.evaluators.options import column
from kshot.configs.evaluators.scores import RightOrWrong, text_of
from kshot.configs.evaluators.tallies import gold_of
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Sample, Value
from kshot.metrics import Metric

NOTHING = "NULL"
_BRACKETS = tuple(
    re.compile(form, re.DOTALL) for form in (r"\[\[\s*(.*?)\s*\]\]", r"\$\\boxed\{(.*?)\}\$", r"\[\s*(.*?)\s*\]")
)
_ALONE = ("0_shot", "3_shot")
_TOGETHER = ("Multi-Q", "Multi-R", "Multi-RQ", "mixed")
_TWENTY_FOUR = 24


def bracketed(text: str, without: str) -> str:
    """Return the first text in brackets, or in a box, without these signs, in double brackets."""
    found = next((found for form in _BRACKETS if (found := form.findall(text))), None)
    if not found:
        return NOTHING
    return f"[[{found[0].strip().translate(dict.fromkeys(map(ord, without)))}]]"


def inner(text: str) -> str:
    """Return what is in the first double brackets."""
    found = re.search(r"\[\[(.*?)\]\]", text, re.DOTALL)
    return found[1] if found else NOTHING


def _logic(reply: str, gold: str, rule: str) -> bool:
    said = bracketed(reply, '"\n .')
    if rule == "5":
        return sorted(said.split(";")) == sorted(gold.split(";"))
    return said == bracketed(gold, '"\n .')


def _operation(reply: str, gold: str, rule: str) -> bool:
    said = bracketed(reply, '"\n []')
    if rule == "18":
        return sorted(_word_signs(said)) == sorted(_word_signs(inner(gold)))
    if rule in ("23", "24", "25"):
        return [int(each) for each in re.findall(r"\d+", said)] == [int(each) for each in re.findall(r"\d+", gold)]
    if "or" in gold:
        said = said.replace("\\text{or}", "or")
        wanted = bracketed(gold, '"\n []')
        return said != NOTHING and _alternatives(said) == _alternatives(wanted)
    return said == gold


def _alternatives(text: str) -> list[str]:
    return sorted(each.strip() for each in text.strip("[]").split("or"))


def _word_signs(text: str) -> str:
    return re.sub(r"\W+", "", text)


# ---- puzzles ----


def _latin(text: str) -> str:
    return re.sub("[^A-Za-z]", "", text).lower()


def _same_words(said: str, gold: str) -> bool:
    return sorted(word for word in re.split(r"\W+", said.lower()) if word) == sorted(gold.split(" "))


def _same_list(said: str, gold: str) -> bool:
    return sorted(re.sub(r"\s+", "", said).split(",")) == sorted(gold.split(","))


def _arithmetic(text: str) -> str:
    return text.replace("×", "*").replace("−", "-")


def _left(text: str) -> str:
    return text.split("=", maxsplit=1)[0]


def _comes_to(text: str, wanted: int) -> bool:
    try:
        return bool(computed(text) == wanted)
    except NO_VALUE:
        return False


def _same_result(said: str, gold: str) -> bool:
    """Whether a sum has the operators of the reference, in their order, and its result."""
    said, gold = _arithmetic(said), _arithmetic(gold)
    operators = re.compile("[-+*/]")
    if operators.findall(_left(said)) != operators.findall(_left(gold)):
        return False
    result = re.search(r"=\s*(-?\d+)", gold)
    if not result:
        raise DataError(f"KOR-Bench's rule 9 finds no result in the reference {gold!r:.80}")
    return _comes_to(_left(said), int(result[1]))


def _makes_24(said: str, gold: str) -> bool:
    """Whether a sum uses the numbers of the reference and comes to 24."""
    said = _left(_arithmetic(said))
    same = sorted(_word_signs(said)) == sorted(_word_signs(_left(gold.split("\n", maxsplit=1)[0])))
    return same and _comes_to(said, _TWENTY_FOUR)


def _same_signs(said: str, gold: str) -> bool:
    return _word_signs(said) == _word_signs(gold)


def _as_it_is(reply: str, gold: str, rule: str) -> bool:  # noqa: ARG001 - as those of the other categories
    return bracketed(reply, '"\n []') == gold


_SEPARATORS = re.compile(r"[,\s\[\]]+")
_PUZZLES: dict[str, Callable[[str, str], bool]] = {
    "1": lambda said, gold: _latin(said) == _latin(gold),
    "2": lambda said, gold: _latin(said) in gold.split(","),
    "3": _same_words,
    "4": lambda said, gold: _latin(said) in gold,
    "5": _same_list,
    "9": _same_result,
    "10": _makes_24,
    "18": lambda said, gold: _SEPARATORS.sub("", said) == _SEPARATORS.sub("", gold),
}


def _puzzle(reply: str, gold: str, rule: str) -> bool:
    return _PUZZLES.get(rule, _same_signs)(inner(reply), inner(gold))


_CATEGORIES: dict[str, Callable[[str, str, str], bool]] = {
    "logic": _logic,
    "operation": _operation,
    "puzzle": _puzzle,
}


class RuleAnswer(RightOrWrong):
    """Share of replies whose answer in brackets is the reference by the rule of the row (KOR-Bench)."""

    def __init__(self) -> None:
        super().__init__("accuracy")

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value]:
        """Compare by the row's category and rule; unknown ways of asking are wrong."""
        reply, gold = text_of(answer, "korbenchEvaluator"), str(gold_of(sample))
        mode = column(sample, "prompt_mode", "KOR-Bench")
        if mode in _TOGETHER:
            raise DataError(
                "KOR-Bench's questions that are asked together have their answers in other files",
                hint="Give --home DIR, so that OpenCompass's own evaluator reads them.",
            )
        rule, category = str(sample.fields.get("rule_id")), sample.fields.get("category")
        compare = _CATEGORIES.get(str(category), _as_it_is)
        return {self.name: 100.0 * (mode in _ALONE and compare(reply, gold, rule))}


def _by_rule(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric | None:  # noqa: ARG001 - as every factory
    """OpenCompass's own evaluator is taken where its source is here: it reads answers to questions asked together."""
    another = ".icl_evaluator." in name.whole
    return None if another or name.framework in scope.homes else RuleAnswer()


EVALUATORS: dict[str, Factory] = {"korbenchEvaluator": _by_rule}
