"""The letters of options: A, B, … Z, AA, AB, …, and the last of them in a reply."""

from __future__ import annotations

import re
from functools import lru_cache

from kshot.core.records import UNANSWERED


def letter(index: int) -> str:
    """Return the letter of an option, as spreadsheets name their columns."""
    name = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        name = chr(ord("A") + rest) + name
    return name


def lettered(options: tuple[str, ...] | list[str]) -> list[str]:
    """Return the options, each after its letter: ``A. first``."""
    return [f"{letter(i)}. {option.lstrip()}" for i, option in enumerate(options)]


@lru_cache(maxsize=64)
def _standalone(count: int) -> re.Pattern[str]:
    names = "|".join(sorted((letter(i) for i in range(count)), key=len, reverse=True))
    # ASCII word characters only: a letter beside Chinese text stands alone
    return re.compile(rf"(?<![A-Za-z0-9_])(?:{names})(?![A-Za-z0-9_])")


def last_letter(text: str, count: int) -> int:
    """Return the index of the last standalone option letter in the text, or ``UNANSWERED``."""
    found = _standalone(count).findall(text)
    return [letter(i) for i in range(count)].index(found[-1]) if found else UNANSWERED
