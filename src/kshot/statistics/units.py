"""Figures per unit, such as per token: they compare systems only where these count the same units in the same texts."""

from __future__ import annotations

import numpy as np

from kshot.statistics.resampling import Values

_PER_UNIT = frozenset({"perplexity", "bits"})
"""The rules that divide one sum by a number of units, which the same texts should have in every system."""


def same_units(rule: str | None, a: Values, b: Values) -> bool:
    """Whether two systems count as many units in each sample, where their figure by this rule is one per unit."""
    if rule not in _PER_UNIT:
        return True
    one, other = (np.asarray(values, dtype=np.float64) for values in (a, b))
    return one.ndim == 1 or np.array_equal(one[:, -1], other[:, -1])
