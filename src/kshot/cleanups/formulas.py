"""Clean-ups of mathematical answers: find one in a reply, and write it in one way. Standard library only."""

from __future__ import annotations

import re

_BOXED = re.compile(r"\\(?:boxed|fbox)\s*(?={)")


def boxed(text: str) -> str | None:
    r"""Return what the last ``\boxed{…}`` encloses, its braces balanced; None where there is none."""
    starts = list(_BOXED.finditer(text))
    if not starts:
        return None
    begin, depth = starts[-1].end(), 0
    for place in range(begin, len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return text[begin + 1 : place]
    return None


_UNITS = (
    *("square", "ways", "integers", "dollars", "mph", "inches", "ft", "hours", "km", "units", "sides", "feet"),
    *("minutes", "digits", "cents", "degrees", "cm", "gm", "pounds", "meters", "meals", "edges", "students"),
    *("multiples", "points"),
)
_WRAPPED = re.compile(r"\\(?:text|textbf|overline|boxed|mathrm|mbox)\s*{([^{}]*)}")


def normalize_final_answer(final_answer: str) -> str:
    """Write a mathematical answer in one way: no units, no dollar signs, no thousands separators."""
    answer = final_answer.rsplit("=", maxsplit=1)[-1]
    answer = re.sub(r"\ban?\s+", "", answer).replace("\\$", "").replace("\\%", "").replace("%", "").replace(" ", "")
    answer = re.sub(r"^.*?\$(.*?)\$.*$", r"\1", answer, flags=re.DOTALL)
    while (bare := _WRAPPED.sub(r"\1", answer)) != answer:
        answer = bare
    for word in _UNITS:
        answer = re.sub(rf"(?<![a-z\\]){word}(?![a-z])", "", answer)
    answer = re.sub(r"\\[td]?frac([^{\s])([^{\s])", r"\\frac{\1}{\2}", answer).replace("\\tfrac", "\\frac")
    answer = answer.replace("\\dfrac", "\\frac").replace("\\left", "").replace("\\right", "").replace("\\!", "")
    answer = (
        re.sub(r"\\sqrt([^{])", r"\\sqrt{\1}", answer).replace("^{\\circ}", "").replace("^\\circ", "").replace("$", "")
    )
    if answer.replace(",", "").isdigit():
        answer = answer.replace(",", "")
    return answer.rstrip(".")


def math_postprocess(text: str) -> str:
    """Take the sentence that contains "final answer", else the first one."""
    parts = text.split(".")
    return normalize_final_answer(next((part for part in parts if "final answer" in part.lower()), parts[0]))


def math_postprocess_v2(text: str) -> str:
    """Take the boxed answer, else the sentence that states the answer, else the first one."""
    inner = boxed(text)
    if inner is not None:
        return inner[1:-1] if inner.startswith("{") and inner.endswith("}") else inner
    parts = text.split(".")
    states = re.compile("final answer|answer is")
    return normalize_final_answer(next((part for part in parts if states.search(part.lower())), parts[0]))
