"""AGIEval's answers to questions of mathematics: what a reply gives as its answer, and when two answers are equal."""

from __future__ import annotations

import re
from typing import Any

from kshot.cleanups.math_text import plain_formula
from kshot.configs.evaluators.scores import RightOrWrong, text_of

_PHRASES = ("The answer is therefore", "答案是")
_BOX = "\\boxed"


class SameAnswer(RightOrWrong):
    """Share of replies whose answer is the reference, once both are written in one way.

    ``with_dollar``: a number that stands alone keeps the ``$`` before it, as OpenCompass has it.
    """

    def __init__(self, *, with_dollar: bool = True) -> None:
        super().__init__()
        self.with_dollar = with_dollar

    def same(self, prediction: Any, reference: Any) -> bool:
        """Take the answer from the reply, and compare."""
        answer = answer_in(text_of(prediction, "AGIEvalEvaluator"), with_dollar=self.with_dollar)
        if answer is None or reference is None:
            return answer is None and reference is None
        try:
            return plain_formula(answer) == plain_formula(reference)
        except (AttributeError, IndexError, ValueError):  # it cannot be written in this way
            return bool(answer == reference)


def answer_in(reply: str, *, with_dollar: bool = True) -> str | None:
    """Return what is boxed, else what is between dollar signs, else what follows ``=``, else the last number."""
    for phrase in _PHRASES:
        if reply.startswith(phrase):
            reply = reply[len(phrase) :].strip()
        elif phrase in reply:
            reply = reply.rpartition(phrase)[2].strip()
    if _BOX in reply:
        return _boxed(reply)
    between = re.findall(r"\$(.*)\$", reply)
    if between and (found := _right_side(between[-1])):
        return found
    if "=" in reply:
        return _right_side(reply).rstrip(".").split("\\n")[0]
    number = r"\d+(?:\.\d+)?(?!\w)"
    numbers = re.findall(rf"\$?{number}" if with_dollar else number, reply)
    return numbers[-1] if numbers else None


def _boxed(reply: str) -> str | None:
    """Return what the last box holds; None for a box that is not closed, or has more than braces around it."""
    start = reply.rindex(_BOX)
    depth = 0
    for at in range(start, len(reply)):
        depth += (reply[at] == "{") - (reply[at] == "}")
        if reply[at] == "}" and depth == 0:
            box = reply[start : at + 1]
            return _right_side(box[len(_BOX) + 1 : -1]) if box.startswith(_BOX + "{") else None
    return None


def _right_side(text: str) -> str:
    return text.rpartition("=")[2].lstrip(" ") if "=" in text else text
