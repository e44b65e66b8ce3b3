"""AGIEval's answers to questions of mathematics: what a reply gives as its answer, and when two answers are equal."""

from __future__ import annotations

import re
from typing import Any

from kshot.configs.evaluators.scores import RightOrWrong, text_of

_PHRASES = ("The answer is therefore", "答案是")
_BOX = "\\boxed"
_MAX_NAME = 2
"""Letters before ``=`` that may be a variable's name."""

_SPELLINGS = (
    *(("\n", ""), ("\\!", ""), ("\\\\", "\\"), ("tfrac", "frac"), ("dfrac", "frac")),
    *((gone, "") for gone in ("\\left", "\\right", "^{\\circ}", "^\\circ", "\\$")),
)
_POINTS = ((" .", " 0."), ("{.", "{0."))
_WHOLE = "(0|-?[1-9][0-9]*)"
_RATIO = re.compile(f"{_WHOLE}/{_WHOLE}")


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


def plain_formula(text: str, *, strict_slash: bool = False) -> str:
    r"""Write a formula in one way. One that cannot be is an error: ``\sqrt`` or ``\frac`` at its end, two units.

    ``strict_slash``: and so is a slash between anything but whole numbers.
    """
    for spelling, other in _SPELLINGS:
        text = text.replace(spelling, other)
    text, *units = text.split("\\text{ ")
    if len(units) > 1:
        raise ValueError("a formula with two units")
    text = text.replace("\\%", "")
    for point, other in _POINTS:
        text = text.replace(point, other)
    if not text:
        return text
    text = f"0{text}" if text[0] == "." else text
    sides = text.split("=")
    if len(sides) == 2 and len(sides[0]) <= _MAX_NAME:  # noqa: PLR2004 - two sides
        text = sides[1]
    text = _with_fractions(_with_roots(text).replace(" ", ""))
    if text == "0.5":
        return "\\frac{1}{2}"
    if strict_slash and text.count("/") == 1:
        for part in text.split("/"):
            int(part)  # what is no number is an error
    return _RATIO.sub(r"\\frac{\1}{\2}", text) if _RATIO.fullmatch(text) else text


def _with_roots(text: str) -> str:
    """Put what a root is of into braces."""
    first, *rest = text.split("\\sqrt")
    return first + "".join("\\sqrt" + (each if each[0] == "{" else f"{{{each[0]}}}{each[1:]}") for each in rest)


def _with_fractions(text: str) -> str:
    r"""Put both parts of a fraction into braces; with a lone letter after ``\frac`` the text stays as it is."""
    first, *rest = text.split("\\frac")
    written = [first]
    for each in rest:
        if each[0] == "{":
            written.append(each)
        elif len(each) == 1:
            return text
        else:
            below = each[1] if each[1] == "{" else f"{{{each[1]}}}"
            written.append(f"{{{each[0]}}}{below}{each[2:]}")
    return "\\frac".join(written)
