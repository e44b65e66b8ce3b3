"""Figures of a metric, computed so that a plug-in metric that fails is named."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kshot.core.errors import DataError, KshotError
from kshot.core.protocols import Scorer
from kshot.core.records import ResultRow, Value

ROUNDING = 1e-9
"""By so much of its scale a value may pass the ends: it was rounded."""

OWN_AGGREGATE = "own"
"""Says that only the metric itself knows how its values become a figure."""


def named_rule(name: str, *metrics: Scorer) -> ResultRow:
    """Return the column ``rule`` of a figure, unless its name says it; metrics with different rules give both."""
    rules = dict.fromkeys(metric.rule for metric in metrics if metric.rule not in {"", name})
    return {"rule": " / ".join(rules)} if rules else {}


def reduced(metric: Scorer, name: str, where: str, values: Sequence[Value]) -> float | None:
    """Sum up the values of one name; any error of the metric becomes an error that names it."""
    try:
        found = metric.reduce(name, values)
        if found is None and any(isinstance(value, tuple) for value in values):
            return None
        return float(found)  # type: ignore[arg-type]  # None of plain values is the error that it gives
    except KshotError as exc:
        exc.where = exc.where or where
        raise
    except Exception as exc:
        raise DataError(f"{name} cannot be summed up: {type(exc).__name__}: {exc}", where=where) from exc


def figure(metric: Scorer, name: str, where: str, values: Sequence[Value]) -> float | None:
    """Sum up the values of one name to a figure that is reported, which must be a finite number; None: there is none.

    Rounding does not take it past an end of its scale: sacrebleu gives a perfect text 100.00000000000004.
    """
    found = reduced(metric, name, where, values)
    if found is None:
        return None
    if not math.isfinite(found):
        raise DataError(f"{name} came to {found}, which is not a finite number", where=where)
    low, high = metric.bounds or (-math.inf, math.inf)
    within = min(max(found, low), high)
    return within if abs(found - within) <= ROUNDING * (abs(within) + 1) else found
