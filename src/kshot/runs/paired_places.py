"""The samples that compared systems share: where they stand in each run, and which side is right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kshot.runs.pairing import Match
from kshot.runs.sample_flips import right_samples
from kshot.runs.sample_verdicts import MetricScale, metric_scales

if TYPE_CHECKING:
    from kshot.runs.comparing import Comparison

_OUTCOMES = "nlwb"
"""By whether the baseline is right (1), and whether the run is (2)."""


class PairedPlaces(NamedTuple):
    """The samples that two systems share in one task: where their rows stand, in the order of the baseline.

    ``outcomes`` has a letter for each: ``w`` (the run alone is right), ``l`` (the baseline alone), ``b`` (both), ``n``
    (neither), or ``-`` where one of them did not answer, or no metric that was compared says what is right.
    """

    match: Match
    baseline: NDArray[np.uint64]
    run: NDArray[np.uint64]
    outcomes: str


def paired_places(comparison: Comparison) -> Iterator[PairedPlaces]:
    """Yield the samples of each two tasks that were compared; the headline of the task in the run says who is right."""
    compared: dict[int, set[str]] = defaultdict(set)
    for row in comparison.rows:
        compared[id(comparison.match_of(row))].add(row["metric"])
    for match in comparison.matches():
        scale = metric_scales(match.other.run.record.results).get((match.other_task, match.other.model))
        known = scale is not None and scale.metric in compared[id(match)]
        letters = _outcomes(match, scale if known else None)
        one, other = match.scores
        places = one.places[match.ours]
        order = np.argsort(places, kind="stable")
        yield PairedPlaces(match, places[order], other.places[match.theirs][order], "".join(letters[order]))


def _outcomes(match: Match, scale: MetricScale | None) -> NDArray[np.str_]:
    letters = np.full(len(match.ours), "-")
    if scale is not None:
        rights, theirs = right_samples(match, scale)
        letters[match.answered] = np.array(list(_OUTCOMES))[rights + 2 * theirs.astype(np.int64)]
    return letters
