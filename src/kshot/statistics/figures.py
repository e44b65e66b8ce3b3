"""Figures of a metric, computed so that a plug-in metric that fails is named."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kshot.core.errors import DataError, KshotError
from kshot.core.protocols import Scorer
from kshot.core.records import Value


def reduced(metric: Scorer, name: str, where: str, values: Sequence[Value]) -> float:
    """Sum up the values of one name; any error of the metric becomes an error that names it."""
    try:
        return float(metric.reduce(name, values))
    except KshotError as exc:
        exc.where = exc.where or where
        raise
    except Exception as exc:
        raise DataError(f"{name} cannot be summed up: {type(exc).__name__}: {exc}", where=where) from exc


def figure(metric: Scorer, name: str, where: str, values: Sequence[Value]) -> float:
    """Sum up the values of one name to a figure that is reported, which must be a finite number."""
    found = reduced(metric, name, where, values)
    if not math.isfinite(found):
        raise DataError(f"{name} came to {found}, which is not a finite number", where=where)
    return found
