"""The normal form of an answer, which EM and F1 compare."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Any

from kshot.core.errors import UsageError

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = re.compile(r"\b(?:a|an|the)\b")
"""The words that SQuAD's script leaves out."""

ARTICLES_AND_AND = re.compile(r"\b(?:a|an|the|and)\b")
"""The words that LLMBox leaves out."""


def normalise(text: Any, ignored: re.Pattern[str] = ARTICLES_AND_AND) -> str:
    """Return the text in lower case, without ASCII punctuation and ignored words, with one space between words."""
    bare = str(text).lower().translate(_NO_PUNCTUATION)
    return " ".join(ignored.sub(" ", bare).split())


def checked_choice(option: str, value: str, allowed: Sequence[str]) -> str:
    """Return the value of an option, which must be one of those allowed."""
    if value not in allowed:
        raise UsageError(f"{option}={value!r} is not known", hint=f"Use one of: {', '.join(allowed)}.")
    return value
