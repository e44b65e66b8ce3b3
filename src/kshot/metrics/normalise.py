"""The normal form of an answer, which EM and F1 compare."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Any

from kshot.core.errors import UsageError

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_IGNORED_WORDS = re.compile(r"\b(?:a|an|the|and)\b")


def normalise(text: Any) -> str:
    """Return the text in lower case, without ASCII punctuation and a/an/the/and, with one space between words."""
    bare = str(text).lower().translate(_NO_PUNCTUATION)
    return " ".join(_IGNORED_WORDS.sub(" ", bare).split())


def checked_choice(option: str, value: str, allowed: Sequence[str]) -> str:
    """Return the value of an option, which must be one of those allowed."""
    if value not in allowed:
        raise UsageError(f"{option}={value!r} is not known", hint=f"Use one of: {', '.join(allowed)}.")
    return value
