"""How far the probabilities that a model gives to options can be trusted: confidence beside accuracy, in ten bins.

The probability of an option is the softmax of the options' total log-probabilities. The confidence of a sample is the
probability of its likeliest option, and the sample counts as right if that option is the right one, whatever rule the
headline goes by. The expected calibration error is that of Guo et al. 2017 (arXiv:1706.04599): the mean, weighted by
the samples in each bin, of the distance between accuracy and mean confidence.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from kshot.core.records import ResultRow
from kshot.report.sample_responses import read_response
from kshot.runs.headline import finite

BINS = 10
_EDGES = [at / BINS for at in range(1, BINS + 1)]
"""The upper ends of the bins; each belongs to the bin below it."""


@dataclass(slots=True)
class Bin:
    """The samples whose confidence lies between two edges."""

    samples: int = 0
    right: int = 0
    confidence: float = 0.0
    """The sum over the samples."""

    @property
    def accuracy(self) -> float:
        """The share of samples whose likeliest option is right."""
        return self.right / self.samples

    @property
    def mean_confidence(self) -> float:
        """The mean probability of the likeliest option."""
        return self.confidence / self.samples


@dataclass(slots=True)
class Calibration:
    """The bins of one task on one model; samples are added one by one."""

    bins: list[Bin] = field(default_factory=lambda: [Bin() for _ in range(BINS)])

    @property
    def samples(self) -> int:
        """How many samples were counted: those with two or more measured options, of which a known one is right."""
        return sum(each.samples for each in self.bins)

    @property
    def accuracy(self) -> float:
        """The share of samples whose likeliest option is right."""
        return sum(each.right for each in self.bins) / self.samples

    @property
    def confidence(self) -> float:
        """The mean probability of the likeliest option."""
        return sum(each.confidence for each in self.bins) / self.samples

    @property
    def error(self) -> float:
        """The expected calibration error, from 0 to 1."""
        gaps = (abs(each.right - each.confidence) for each in self.bins)
        return sum(gaps) / self.samples

    def add(self, confidence: float, *, right: bool) -> None:
        """Count a sample."""
        chosen = self.bins[min(bisect_left(_EDGES, confidence), BINS - 1)]
        chosen.samples += 1
        chosen.right += right
        chosen.confidence += confidence


def confidence_of(row: ResultRow) -> tuple[float, bool] | None:
    """Return the probability of the likeliest option of a sample, and whether it is right; None where none is known.

    Of options that are equally likely, the first one counts, as in the answers of kshot.
    """
    response = row.get("response")
    if not isinstance(response, list) or len(response) < 2 or row.get("failed"):  # noqa: PLR2004 - a choice
        return None
    if not isinstance(response[0], dict) or "logprob" not in response[0]:
        return None
    target = row.get("target")
    rights = [each for each in (target if isinstance(target, list) else [target]) if type(each) is int]
    logprobs = read_response(row, "").options.logprobs
    if not rights or len(logprobs) < 2:  # noqa: PLR2004 - a choice
        return None
    likeliest = _likeliest(logprobs)
    return None if likeliest is None else (likeliest[0], likeliest[1] in rights)


def _likeliest(logprobs: Sequence[float]) -> tuple[float, int] | None:
    """Return the largest softmax of log-probabilities, and where it stands; None if one of them is no number."""
    if any(finite(each) is None and each != -math.inf for each in logprobs):
        return None
    top = max(logprobs)
    if top == -math.inf:
        return None
    return 1 / math.fsum(math.exp(each - top) for each in logprobs), logprobs.index(top)
