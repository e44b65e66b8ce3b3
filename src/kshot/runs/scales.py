"""Whether two runs measure the same by a metric: figures on two scales, or by two rules, have no difference."""

from __future__ import annotations

import math

from kshot.core.records import ResultRow
from kshot.runs.compared_run import bounds_of

_UNKNOWN = (None, (-math.inf, math.inf))


def measure_conflict(one: ResultRow, other: ResultRow, labels: tuple[str, str]) -> str | None:
    """Return why figures of two runs, with these labels, are not the same measure though its name is; None: they are.

    Passages of different sizes are compared only by measures with a token budget: at equal k, larger ones win.
    """
    metric = one["metric"]
    if (one.get("higher_is_better") is False) != (other.get("higher_is_better") is False):
        return f"the runs disagree whether a higher {metric} is better"
    if conflict := scale_conflict(one, other, labels):
        return conflict
    if one.get("aggregate") != other.get("aggregate"):
        return f"the runs compute {metric} by different rules"
    if one.get("chunks") != other.get("chunks") and not one.get("token_budget"):
        return (
            f"the passages of {labels[0]} and {labels[1]} differ in size, so they are compared only by measures with a "
            "token budget"
        )
    return None


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
