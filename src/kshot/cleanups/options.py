"""Clean-ups that find the option that a reply chooses, by its letter. Standard library only."""

from __future__ import annotations

import re
from typing import Any

from kshot.cleanups.first_option import letter_class
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


def last_option_postprocess(text: str, options: str, cushion: Any = None) -> str:  # noqa: ARG001 - configs pass it
    """Take the last of the option letters, wherever it stands."""
    found = re.findall(letter_class(options), text)
    return found[-1] if found else ""


def bbh_mcq_postprocess(text: str) -> str:
    """Take the letter after "answer is", in brackets or bare."""
    answer = after_answer_is(text)
    found = re.search(r"\(([A-Z])\)*", answer) or re.search(r"([A-Z])", answer)
    return found[1] if found else answer
