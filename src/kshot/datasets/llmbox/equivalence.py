"""Whether two answers to a problem of MATH are the same, however they are written in LaTeX."""

from __future__ import annotations

import re
from typing import Any

_LEFT_OUT = ("\\!", "\\left", "\\right", "^{\\circ}", "^\\circ", "\\$", "$", "\\%", "%", "\\ ", "\\,", "\\;")
_UNIT = re.compile(r"\\text\s*\{\s.*$", re.DOTALL)
_SHORT_FRACTION = re.compile(r"\\frac\s*([^{\s\\])\s*([^{\s\\]|\{[^{}]*\})")
_HALF_BRACED_FRACTION = re.compile(r"\\frac\s*(\{[^{}]*\})\s*([^{\s\\])")
_SHORT_ROOT = re.compile(r"\\sqrt\s*([^{\s\\\[])")
_SLASH = re.compile(r"(-?\d+)/(-?\d+)")
_LEADING_POINT = re.compile(r"(?<!\d)\.(?=\d)")


def equivalent(one: Any, other: Any, verbose: bool = False) -> bool:  # noqa: ARG001, FBT001, FBT002 - LLMBox's signature
    """Whether two answers are equal once both are written in one way; two that are missing are equal."""
    if one is None or other is None:
        return one is None and other is None
    return written_in_one_way(str(one)) == written_in_one_way(str(other))


def written_in_one_way(answer: str) -> str:
    """Leave out units, signs and spaces that do not change an answer, and write fractions and roots with braces."""
    text = answer.replace("\n", "").replace("tfrac", "frac").replace("dfrac", "frac").replace("\\\\", "\\")
    for each in _LEFT_OUT:
        text = text.replace(each, "")
    text = _LEADING_POINT.sub("0.", _UNIT.sub("", text))
    head, sign, value = text.partition("=")
    if sign and len(head.strip()) <= 2 and "=" not in value:  # noqa: PLR2004 - "x = 3", "y_ = 3"
        text = value
    text = _SHORT_ROOT.sub(r"\\sqrt{\1}", text).replace(" ", "")
    text = _SHORT_FRACTION.sub(_with_braces, text)
    text = _HALF_BRACED_FRACTION.sub(r"\\frac\1{\2}", text)
    if text == "0.5":
        return "\\frac{1}{2}"
    whole = _SLASH.fullmatch(text)
    return f"\\frac{{{int(whole[1])}}}{{{int(whole[2])}}}" if whole else text


def _with_braces(found: re.Match[str]) -> str:
    below = found[2] if found[2].startswith("{") else f"{{{found[2]}}}"
    return f"\\frac{{{found[1]}}}{below}"
