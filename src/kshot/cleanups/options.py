"""Clean-ups that find the option that a reply chooses, by its letter. Standard library only."""

from __future__ import annotations

import re
from typing import Any

from kshot.cleanups.patterns import after_answer_is


def first_capital_postprocess(text: str) -> str:
    """Take the first capital letter."""
    return next((letter for letter in text if letter.isupper()), "")


def last_capital_postprocess(text: str) -> str:
    """Take the last capital letter."""
    return next((letter for letter in reversed(text) if letter.isupper()), "")


def multiple_select_postprocess(text: str) -> str:
    """Take all capital letters, each once, in alphabetical order."""
    return "".join(sorted({letter for letter in text if letter.isupper()}))


def first_capital_postprocess_multi(text: str) -> str:
    """Take the first run of the letters A to D."""
    found = re.search(r"[A-D]+", text)
    return found[0] if found else ""


def _letters(options: str) -> str:
    """Return letters (or a range, ``A-D``) as they stand between the brackets of a pattern, and nothing but letters."""
    return re.sub(r"([\\\]\[^])", r"\\\1", options)


def last_option_postprocess(text: str, options: str, cushion: Any = None) -> str:  # noqa: ARG001 - configs pass it
    """Take the last of the option letters, wherever it stands."""
    found = re.findall(f"[{_letters(options)}]", text)
    return found[-1] if found else ""


# From the phrase that states a choice most clearly to the one that states it least; the first that occurs decides.
_PHRASES = (
    r"答案(?:选项)?(?:应该|应|该)?(?:是|为|选)?(?:选项)?\s*[：:]?\s*\(?\*{{0,2}}([{o}])",
    r"(?:故|应|因此)?选择?(?:选?项)?\s*[：:]?\s*([{o}])",
    r"只有选?项?\s?([{o}])\s?是?对",
    r"([{o}])\s?(?:是|为)?(?:正确|对)的?(?:答案|选项)?",
    r"[Aa]nswer(?:\s+to the question)?\s+is:?\s*(?:the\s+)?(?:[Oo]ption:?\s*)?\(?\*{{0,2}}\(?([{o}])(?![A-Za-z])",
    r"[Cc]orrect (?:answer|option|choice) (?:is|would be):?\s*(?:[Oo]ption\s*)?.{{0,3}}?\(?\*{{0,2}}([{o}])(?!\w)",
    r"\\boxed{{\s*(?:\\text{{)?\(?([{o}])\)?",
    r"[Aa]nswer\s*[:：]\s*\(?\*{{0,2}}\(?([{o}])(?![A-Za-z])",
    r"^选项\s?([{o}])",
    r"^([{o}])\s?选?项",
    r"(?:\s|^)\(?([{o}])\)?[\s。，,：:.]",
    r"(?:\s|^)([{o}])$",
)
_CUSHION = (r"([{o}]):", r"([{o}])")


def first_option_postprocess(text: str, options: str, cushion: bool = True) -> str:  # noqa: FBT001, FBT002 - as configs pass it
    """Find the option that a reply settles on: by a phrase that states it, else (``cushion``) by the first letter."""
    text, letters = text.strip(), _letters(options)
    for phrase in (*_PHRASES, *(_CUSHION if cushion else ())):
        if found := re.search(phrase.format(o=letters), text, re.DOTALL):
            return found[1]
    return ""


def bbh_mcq_postprocess(text: str) -> str:
    """Take the letter after "answer is", in brackets or bare."""
    answer = after_answer_is(text)
    found = re.search(r"\(([A-Z])\)*", answer) or re.search(r"([A-Z])", answer)
    return found[1] if found else answer
