r"""One way of writing a formula, by the rule of the dataset MATH: ``\tfrac12`` and ``1/2`` are ``\frac{1}{2}``.

OpenCompass, AISBench, AGIEval and LLMBox all compare answers by it, and differ in what they call an error.
Standard library only.
"""

from __future__ import annotations

import re

_SPELLINGS = (
    *(("\n", ""), ("\\!", ""), ("\\\\", "\\"), ("tfrac", "frac"), ("dfrac", "frac")),
    *((gone, "") for gone in ("\\left", "\\right", "^{\\circ}", "^\\circ", "\\$")),
)
LEADING_ZERO = ((" .", " 0."), ("{.", "{0."))
"""Where a number without its first digit gets it."""
_UNIT = "\\text{ "
"""What stands before a unit after a number."""
_NAME_LENGTH = 2
"""``x=5`` and ``x =5`` are 5; a longer name before the sign is part of the answer."""
_WHOLE = "(0|-?[1-9][0-9]*)"
_RATIO = re.compile(f"{_WHOLE}/{_WHOLE}")


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    """Replace texts, one after the other."""
    for old, new in pairs:
        text = text.replace(old, new)
    return text


def plain_formula(text: str, *, strict_slash: bool = False, strict_fraction: bool = True) -> str:
    r"""Write a formula in one way. One that cannot be is an error: a root of nothing, or two units.

    ``strict_slash``: and so is a slash between anything but whole numbers; ``strict_fraction``: ``\frac`` at the end.
    """
    text, *units = replaced(text, *_SPELLINGS).split(_UNIT)
    if len(units) > 1:
        raise ValueError("a formula with two units")
    text = value_alone(replaced(text.replace("\\%", ""), *LEADING_ZERO))
    text = braced_fractions(_braced_roots(text).replace(" ", ""), strict=strict_fraction)
    return "\\frac{1}{2}" if text == "0.5" else slash_as_fraction(text, strict=strict_slash)


def same_formula(one: str, other: str) -> bool:
    """Whether two formulas are the same once both are written in one way; where that cannot be, as they are."""
    try:
        return plain_formula(one) == plain_formula(other)
    except (IndexError, ValueError):
        return one == other


def value_alone(text: str) -> str:
    """Write ``.5`` as 0.5, and ``x=5`` as 5."""
    text = f"0{text}" if text.startswith(".") else text
    before, _, after = text.partition("=")
    return after if text.count("=") == 1 and len(before) <= _NAME_LENGTH else text


def _braced_roots(text: str) -> str:
    r"""Write ``\sqrt3`` as ``\sqrt{3}``; a root of nothing is an error."""
    first, *rest = text.split("\\sqrt")
    return first + "".join("\\sqrt" + (each if each[0] == "{" else f"{{{each[0]}}}{each[1:]}") for each in rest)


def braced_fractions(text: str, *, strict: bool = False) -> str:
    r"""Write ``\frac12`` as ``\frac{1}{2}``; a text with half a fraction stays as it is.

    ``strict``: a fraction of nothing is an error.
    """
    first, *rest = text.split("\\frac")
    written = [first]
    for each in rest:
        if each[0] == "{" if strict else each.startswith("{"):
            written.append(each)
        elif len(each) < 2:  # noqa: PLR2004 - above and below
            return text
        else:
            below = each[1] if each[1] == "{" else f"{{{each[1]}}}"
            written.append(f"{{{each[0]}}}{below}{each[2:]}")
    return "\\frac".join(written)


def slash_as_fraction(text: str, *, strict: bool) -> str:
    r"""Write ``1/2`` as ``\frac{1}{2}``; a slash between other things is an error where it is ``strict``."""
    if strict and text.count("/") == 1:
        for part in text.split("/"):
            int(part)  # what is no number is an error
    return _RATIO.sub(r"\\frac{\1}{\2}", text) if _RATIO.fullmatch(text) else text
