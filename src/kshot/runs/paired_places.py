"""The samples that two compared systems share: where they stand in each run, and which side is right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kshot.runs.pairing import Match
from kshot.runs.sample_verdicts import MetricScale


class PairedPlaces(NamedTuple):
    """A sample in the baseline and in the run: where its rows stand, and who is right.

    ``outcome`` is ``w`` (the run alone), ``l`` (the baseline alone), ``b`` (both) or ``n`` (neither).
    """

    baseline: int
    run: int
    outcome: str


_OUTCOMES = "nlwb"
"""By whether the baseline is right (1), and whether the run is (2)."""


def paired_places(matched: Match, scale: MetricScale) -> Iterator[PairedPlaces]:
    """Yield the samples that both answered, in the order of the baseline; ``scale`` says what is right."""
    (one, other), (ours, theirs) = matched.scores, matched.chosen()
    right = _right(one.scores[scale.metric][ours], scale) + 2 * _right(other.scores[scale.metric][theirs], scale)
    places, there = one.places[ours], other.places[theirs]
    for at in np.argsort(places, kind="stable"):
        yield PairedPlaces(int(places[at]), int(there[at]), _OUTCOMES[int(right[at])])


def _right(scores: NDArray[np.float64], scale: MetricScale) -> NDArray[np.int64]:
    values, codes = np.unique(scores, return_inverse=True)
    return np.array([scale.is_right(float(value)) for value in values], dtype=np.int64)[codes]
