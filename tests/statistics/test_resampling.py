"""Resamples: how many, which figures, and always the same."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kshot.core.errors import DataError
from kshot.metrics import Perplexity
from kshot.statistics import mean, resamples
from kshot.statistics.resampling import bootstrap, is_mean, middle_95
from tests.measures import measure

PPL = measure(Perplexity()).aggregate


def test_mean():
    assert mean([1.0, 2.0]) == 1.5
    assert math.isnan(mean([]))
    with pytest.raises(DataError, match="values that are tuples have no mean"):
        mean([(1.0, 2.0)])


def test_many_values_take_fewer_resamples():
    assert resamples(100) == 1000
    assert resamples(1_000_000) == 200
    assert resamples(10**9) == 200
    assert len(bootstrap([(1.0, 2.0)] * 10, PPL)) == 1000


def test_every_call_draws_the_same():
    values = [float(value) for value in range(50)]
    assert list(bootstrap(values, mean)) == list(bootstrap(values, mean))


def test_figures_of_sums_are_computed_from_the_sums():
    """A figure that depends on sums alone is reduced once for each resample, from one tuple."""
    lengths = []

    def reduce(part):
        lengths.append(len(part))
        return PPL(part)

    bootstrap([(1.0, 2.0), (3.0, 2.0)] * 500, reduce)
    assert lengths[2:] == [1] * 1000


def test_a_mean_is_recognised():
    values = [100.0, 0.0, 100.0, 100.0]
    assert is_mean(mean, values)
    assert is_mean(lambda part: sum(part) / len(part), values)
    assert not is_mean(max, values)
    assert not is_mean(lambda part: float(np.median(part)), [1.0, 2.0, 9.0])


def test_the_middle_is_a_little_more_than_95_percent_for_few_samples():
    figures = np.arange(1001, dtype=np.float64)
    assert middle_95(figures, 10**6) == pytest.approx((25.0, 975.0), abs=0.01)
    low, high = middle_95(figures, 10)
    assert (8 < low < 9, 991 < high < 992) == (True, True)


def test_the_mean_of_values_whose_sum_is_no_float():
    assert mean([1.5e308, 1.5e308]) == 1.5e308
