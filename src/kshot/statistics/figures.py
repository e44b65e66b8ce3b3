"""Figures of a metric, computed so that a plug-in metric that fails is named.

Figures per unit, such as per token, compare systems only where these count the same units in the same texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kshot.core.errors import DataError, KshotError
from kshot.core.metric import Measure, Observation
from kshot.core.records import ResultRow
from kshot.core.visible import rule_label
from kshot.statistics.resampling import Values

ROUNDING = 1e-9
"""By so much of its scale a value may pass the ends: it was rounded."""

OWN_AGGREGATE = "own"
"""What a run folder says of an aggregate without a key: only the metric itself knows how its values become a figure."""


def named_rule(*measures: Measure) -> ResultRow:
    """Return the column ``rule`` of a figure, unless its name says it; measures with different rules give both."""
    label = rule_label(measure.rule for measure in measures if measure.rule != measure.name)
    return {"rule": label} if label else {}


def rule_of_rows(*rows: ResultRow) -> ResultRow:
    """Return the same column for figures that are rows."""
    label = rule_label(row.get("rule", "") for row in rows)
    return {"rule": label} if label else {}


def reduced(measure: Measure, where: str, values: Sequence[Any]) -> float | None:
    """Sum up the values of a measure; any error of its aggregate becomes an error that names it."""
    try:
        found = measure.aggregate(values)
        if found is None and any(isinstance(value, tuple | Observation) for value in values):
            return None
        return float(found)  # type: ignore[arg-type]  # None of plain values is the error that it gives
    except KshotError as exc:
        exc.where = exc.where or where
        raise
    except Exception as exc:
        raise DataError(f"{measure.name} cannot be summed up: {type(exc).__name__}: {exc}", where=where) from exc


def figure(measure: Measure, where: str, values: Sequence[Any]) -> float | None:
    """Sum up the values of a measure to a figure that is reported, which must be a finite number; None: there is none.

    Rounding does not take it past an end of its scale: sacrebleu gives a perfect text 100.00000000000004.
    """
    found = reduced(measure, where, values)
    if found is None:
        return None
    if not math.isfinite(found):
        raise DataError(f"{measure.name} came to {found}, which is not a finite number", where=where)
    low, high = measure.bounds or (-math.inf, math.inf)
    within = min(max(found, low), high)
    return within if abs(found - within) <= ROUNDING * (abs(within) + 1) else found


_PER_UNIT = frozenset({"perplexity", "bits"})
"""The rules that divide one sum by a number of units, which the same texts should have in every system."""


def same_units(rule: str | None, a: Values, b: Values) -> bool:
    """Whether two systems count as many units in each sample, where their figure by this rule is one per unit."""
    if rule not in _PER_UNIT:
        return True
    one, other = (np.asarray(values, dtype=np.float64) for values in (a, b))
    return one.ndim == 1 or np.array_equal(one[:, -1], other[:, -1])
