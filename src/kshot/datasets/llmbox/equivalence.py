"""Whether two answers to a problem of MATH are the same, as LLMBox decides it."""

from __future__ import annotations

from typing import Any

from kshot.cleanups.formulas import same_formula


def equivalent(one: Any, other: Any, verbose: bool = False) -> bool:  # noqa: ARG001, FBT001, FBT002 - LLMBox's signature
    """Whether two answers are equal once both are written in one way; two that are missing are equal."""
    if one is None or other is None:
        return one is None and other is None
    return same_formula(str(one), str(other))
