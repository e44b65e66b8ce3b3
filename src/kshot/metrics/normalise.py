"""What EM and F1 share: the normal form of an answer, and the best over several references."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from kshot.core.errors import DataError, UsageError

MultiRef: TypeAlias = Literal["max", "leave_one_out"]

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_LITTLE_WORDS = re.compile(r"\b(?:a|an|the|and)\b")


def normalise(text: Any) -> str:
    """Lower case, without ASCII punctuation, without a/an/the/and, one space between words."""
    bare = str(text).lower().translate(_NO_PUNCTUATION)
    return " ".join(_LITTLE_WORDS.sub(" ", bare).split())


def listed(reference: Any, metric: str) -> Sequence[Any]:
    """Check that references come as a non-empty list: a plain string would be read letter by letter."""
    if isinstance(reference, str) or not isinstance(reference, Sequence):
        raise DataError(
            f"{metric} got the reference {reference!r}, which is not a list of answers",
            hint=f"Give a list for every sample, such as [{str(reference)!r}].",
        )
    if not reference:
        raise DataError(f"{metric} got an empty list of references", hint="Give at least one answer for every sample.")
    return reference


def checked(option: str, value: str, allowed: Sequence[str]) -> str:
    """Check an option's value against the ones there are."""
    if value not in allowed:
        raise UsageError(f"{option}={value!r} is not known", hint=f"Use one of: {', '.join(allowed)}.")
    return value


def over_references(rate: Callable[[Any], float], references: Sequence[Any], strategy: str) -> float:
    """Rate against every reference and keep the best.

    ``leave_one_out``: the mean, over the references, of the best score when that one is left out. It makes a model
    comparable with a person whose own answer is among the references. With one reference both are the same.
    """
    scores = [rate(reference) for reference in references]
    if strategy == "max" or len(scores) == 1:
        return max(scores)
    best = [max(scores[:i] + scores[i + 1 :]) for i in range(len(scores))]
    return sum(best) / len(best)
