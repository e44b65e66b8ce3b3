"""References as text metrics take them: a list of answers, or one text; and the best score over several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from kshot.core.errors import DataError, UsageError

MultiRef: TypeAlias = Literal["max", "leave_one_out"]
MULTIREF_STRATEGIES = ("max", "leave_one_out")


def reference_list(reference: Any, metric: str) -> Sequence[Any]:
    """Return the references, which must be a non-empty list: a plain string would be read letter by letter."""
    if isinstance(reference, str) or not isinstance(reference, Sequence):
        raise DataError(
            f"{metric} got the reference {reference!r}, which is not a list of answers",
            hint=f"Give a list for every sample, such as [{str(reference)!r}].",
        )
    if not reference:
        raise DataError(f"{metric} got an empty list of references", hint="Give at least one answer for every sample.")
    return reference


def reference_texts(reference: Any, metric: str) -> list[str]:
    """Return the reference texts as a list; the reference is a text or a list of alternative texts."""
    found = [reference] if isinstance(reference, str) else list(reference) if isinstance(reference, Sequence) else []
    if not found or not all(isinstance(text, str) for text in found):
        raise DataError(
            f"{metric} got the reference {reference!r}, which is neither a text nor a list of texts",
            hint="Give every sample one reference text or several.",
        )
    return found


def best_over_references(rate: Callable[[Any], float], references: Sequence[Any], strategy: str) -> float:
    """Rate against every reference and return the best score.

    ``leave_one_out``: the mean, over the references, of the best score when that reference is left out. This makes a
    model comparable with a person whose own answer is among the references. With one reference both are the same.
    """
    scores = [rate(reference) for reference in references]
    if strategy == "max" or len(scores) == 1:
        return max(scores)
    best = [max(scores[:i] + scores[i + 1 :]) for i in range(len(scores))]
    return sum(best) / len(best)


def checked_choice(option: str, value: str, allowed: Sequence[str]) -> str:
    """Return the value of an option, which must be one of those allowed."""
    if value not in allowed:
        raise UsageError(f"{option}={value!r} is not known", hint=f"Use one of: {', '.join(allowed)}.")
    return value
