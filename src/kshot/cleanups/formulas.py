"""Mathematical answers: found in a reply, and written in one way. Standard library only, as ``cleanup``."""

from __future__ import annotations

import re

_BOXED = re.compile(r"\\(?:boxed|fbox)\s*(?={)")


def boxed(text: str) -> str | None:
    r"""Give what the last ``\boxed{…}`` holds, its braces balanced; None when there is none."""
    starts = list(_BOXED.finditer(text))
    if not starts:
        return None
    begin, depth = starts[-1].end(), 0
    for place in range(begin, len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return text[begin + 1 : place]
    return None


_DROPPED = (
    *(
        "square",
        "ways",
        "integers",
        "dollars",
        "mph",
        "inches",
        "ft",
        "hours",
        "km",
        "units",
        "sides",
        "feet",
        "minutes",
    ),
    *(
        "digits",
        "cents",
        "degrees",
        "cm",
        "gm",
        "pounds",
        "meters",
        "meals",
        "edges",
        "students",
        "multiples",
        "points",
    ),
)
_WRAPPED = re.compile(r"\\(?:text|textbf|overline|boxed|mathrm|mbox)\s*{([^{}]*)}")


def normalize_final_answer(final_answer: str) -> str:
    """Write a mathematical answer in one way: no units, no dollar signs, no thousands separators."""
    said = final_answer.rsplit("=", maxsplit=1)[-1]
    said = re.sub(r"\ban?\s+", "", said).replace("\\$", "").replace("\\%", "").replace("%", "").replace(" ", "")
    said = re.sub(r"^.*?\$(.*?)\$.*$", r"\1", said, flags=re.DOTALL)
    while (bare := _WRAPPED.sub(r"\1", said)) != said:
        said = bare
    for word in _DROPPED:
        said = re.sub(rf"(?<![a-z\\]){word}(?![a-z])", "", said)
    said = re.sub(r"\\[td]?frac([^{\s])([^{\s])", r"\\frac{\1}{\2}", said).replace("\\tfrac", "\\frac")
    said = said.replace("\\dfrac", "\\frac").replace("\\left", "").replace("\\right", "").replace("\\!", "")
    said = re.sub(r"\\sqrt([^{])", r"\\sqrt{\1}", said).replace("^{\\circ}", "").replace("^\\circ", "").replace("$", "")
    if said.replace(",", "").isdigit():
        said = said.replace(",", "")
    return said.rstrip(".")


def math_postprocess(text: str) -> str:
    """Take the sentence that says "final answer", else the first one."""
    parts = text.split(".")
    return normalize_final_answer(next((part for part in parts if "final answer" in part.lower()), parts[0]))


def math_postprocess_v2(text: str) -> str:
    """Take the boxed answer, else the sentence that says it is the answer, else the first one."""
    held = boxed(text)
    if held is not None:
        return held[1:-1] if held.startswith("{") and held.endswith("}") else held
    parts = text.split(".")
    saying = re.compile("final answer|answer is")
    return normalize_final_answer(next((part for part in parts if saying.search(part.lower())), parts[0]))
