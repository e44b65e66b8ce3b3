"""Whether two runs give a metric on the same scale: figures on two scales have no difference."""

from __future__ import annotations

import math

from kshot.core.records import ResultRow
from kshot.runs.compared_run import bounds_of

_UNKNOWN = (None, (-math.inf, math.inf))


def scale_conflict(one: ResultRow, other: ResultRow, labels: tuple[str, str]) -> str | None:
    """Return why rows of ``summary.json`` of two runs, with these labels, are not on one scale.

    None: they are, or one of them does not say its scale.
    """
    mine, yours = bounds_of(one), bounds_of(other)
    if mine in _UNKNOWN or yours in _UNKNOWN or mine == yours:
        return None
    scales = " and ".join(f"{_told(*each)} in {label}" for each, label in zip((mine, yours), labels, strict=True))
    return f"the scales of {one['metric']} differ: {scales}"


def _told(low: float, high: float) -> str:
    if math.isinf(low):
        return f"up to {high:g}"
    return f"{low:g} or more" if math.isinf(high) else f"{low:g} to {high:g}"
