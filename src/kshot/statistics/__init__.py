"""Confidence intervals of figures, and paired comparisons of systems."""

from kshot.statistics.intervals import interval, macro_interval, wilson
from kshot.statistics.paired import Pair, Paired, averaged, compare, compare_by_family, holm, paired
from kshot.statistics.permutation import share_test, sign_test
from kshot.statistics.resampling import mean, resamples

__all__ = [
    "Pair",
    "Paired",
    "averaged",
    "compare",
    "compare_by_family",
    "holm",
    "interval",
    "macro_interval",
    "mean",
    "paired",
    "resamples",
    "share_test",
    "sign_test",
    "wilson",
]
