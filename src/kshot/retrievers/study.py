"""How much the choice of examples alone moves a score: the same run over several draws."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from typing import NamedTuple

from kshot.core.errors import UsageError

LAST_SEED = 2**32 - 1


class Spread(NamedTuple):
    """A figure over several draws of examples; one draw has no standard deviation."""

    mean: float
    sd: float | None
    min: float
    max: float


def parse_seeds(text: str) -> range:
    """Read ``0..9`` (both ends included) or a single seed."""
    match = re.fullmatch(r"\s*(\d+)\s*(?:\.\.\s*(\d+)\s*)?", text, re.ASCII)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if first > last or last > LAST_SEED:
        raise UsageError(f"--retriever-seeds is {text!r}", hint="Write first..last, such as 0..9.")
    return range(first, last + 1)


def spread(values_by_seed: Mapping[int, float]) -> Spread:
    """Mean, sample standard deviation (over n - 1), least and greatest of one figure per draw."""
    values = [float(value) for value in values_by_seed.values()]
    if not values:
        raise UsageError("there is no value to take a spread of")
    sd = statistics.stdev(values) if len(values) > 1 else None
    return Spread(statistics.fmean(values), sd, min(values), max(values))
