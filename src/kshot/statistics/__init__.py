"""Confidence intervals of figures, and paired comparisons of two systems."""

from kshot.statistics.intervals import interval, macro_interval, wilson
from kshot.statistics.paired import Paired, paired, sign_test
from kshot.statistics.resampling import mean, resamples

__all__ = ["Paired", "interval", "macro_interval", "mean", "paired", "resamples", "sign_test", "wilson"]
