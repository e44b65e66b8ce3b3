"""Intervals of scores between two ends: Clopper and Pearson's for shares, and the random weights that define them."""

from __future__ import annotations

import numpy as np
import pytest

from kshot.statistics.intervals import bounded_ends, bounded_interval


@pytest.mark.parametrize("n", [3, 5, 20, 122, 1000])
def test_shares_get_clopper_and_pearsons_interval(n):
    stats = pytest.importorskip("scipy.stats")
    for right in {0, 1, 2, n // 2, n - 1, n} & set(range(n + 1)):
        low, high = bounded_interval(np.array([1.0] * right + [0.0] * (n - right)), 0.0, 1.0)
        exact = stats.binomtest(right, n).proportion_ci(method="exact")
        assert low == pytest.approx(exact.low, rel=0.03, abs=2e-4)
        assert high == pytest.approx(exact.high, rel=0.01)


@pytest.mark.parametrize("shape", [(1, 1), (0.2, 2), (5, 1), (0.1, 0.1)])
def test_the_ends_are_points_of_means_with_random_weights(shape):
    rng = np.random.default_rng(2)
    values = rng.beta(*shape, 25)
    weights = rng.dirichlet(np.ones(26), 200_000)
    low, high = bounded_interval(values, 0.0, 1.0)
    assert low == pytest.approx(np.quantile(weights @ np.append(values, 0.0), 0.025), abs=0.003)
    assert high == pytest.approx(np.quantile(weights @ np.append(values, 1.0), 0.975), abs=0.003)


def test_odd_samples():
    assert bounded_interval(np.full(5, 3.0), 0.0, 3.0)[1] == 3.0
    assert bounded_interval(np.zeros(5), 0.0, 3.0)[0] == pytest.approx(0.0, abs=1e-12)
    low, high = bounded_interval(np.full(30, 1e-9), 0.0, 1.0)
    assert low <= 1e-9
    assert 0.1 < high < 0.13
    low, high = bounded_interval(np.linspace(0, 1, 50_001), 0.0, 1.0)  # more values than are told apart
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(1 / 12 / 50_001), rel=0.02)


def test_many_samples_at_once():
    points = np.array([[0.0, 0.5, 1.0], [0.2, 0.4, 0.9]])
    counts = np.array([[5.0, 3.0, 2.0], [1.0, 1.0, 8.0]])
    lows, highs = bounded_ends(points, counts)
    for row in range(2):
        alone = bounded_interval(np.repeat(points[row], counts[row].astype(int)), 0.0, 1.0)
        assert (lows[row], highs[row]) == pytest.approx(alone)
