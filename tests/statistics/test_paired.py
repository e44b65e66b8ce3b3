"""Two systems on the same samples: difference, interval, sign test."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshot.core.errors import DataError
from kshot.metrics import Perplexity
from kshot.statistics import paired, sign_test

PPL = partial(Perplexity().reduce, "PPL")


@given(st.integers(0, 12), st.integers(0, 12))
def test_sign_test(wins, losses):
    n, fewer = wins + losses, min(wins, losses)
    expected = min(1.0, 2 * sum(math.comb(n, i) for i in range(fewer + 1)) / 2**n)
    assert sign_test(wins, losses) == pytest.approx(expected)


def test_sign_test_of_many():
    assert sign_test(50_000, 50_000) == 1.0
    assert sign_test(60_000, 40_000) == pytest.approx(0, abs=1e-12)


def test_paired():
    a, b = [100.0, 100.0, 100.0, 0.0, 100.0] * 20, [100.0, 0.0, 100.0, 0.0, 0.0] * 20
    found = paired(a, b)
    assert found.difference == 40.0
    assert (found.wins, found.losses, found.ties) == (40, 0, 60)
    assert found.interval[0] < 40 < found.interval[1]
    assert found.interval[0] > 25
    assert found.p < 1e-9
    assert paired(a, b) == found
    assert paired(a, a).p == 1.0
    assert paired([1.0], [2.0]).interval is None
    for wrong in (([], []), ([1.0], [1.0, 2.0])):
        with pytest.raises(DataError):
            paired(*wrong)


def test_paired_corpus_figures():
    a, b = [(1.0, 1.0)] * 30, [(2.0, 1.0)] * 30
    found = paired(a, b, PPL)
    assert found.difference == pytest.approx(math.e - math.e**2)
    assert (found.wins, found.losses) == (0, 30)


def test_whether_one_is_ahead():
    better, worse = [0.5, 1.0, 0.5, 1.0] * 20, [0.5, 0.5, 0.25, 1.0] * 20
    for found in (paired(better, worse), paired(worse, better)):
        assert found.decided
        assert (found.interval[0] > 0) == (found.difference > 0)
    assert not paired(better, better).decided
    assert not paired([1.0], [0.0]).decided
    assert not paired([1.0, 0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0, 0.0]).decided  # by chance


def test_the_paired_interval_covers_the_true_difference_about_as_often_as_it_says():
    rng = np.random.default_rng(11)
    covered = 0
    for _ in range(150):
        a = rng.choice([0.0, 0.1, 0.25, 0.5, 1.0], 60)  # 0.37 on average
        b = np.where(rng.random(60) < 0.6, a, rng.choice([0.0, 0.5, 1.0], 60))  # 0.6·0.37 + 0.4·0.5
        low, high = paired(list(a), list(b)).interval
        covered += low <= 0.37 - (0.6 * 0.37 + 0.4 * 0.5) <= high
    assert 0.88 <= covered / 150 <= 0.99


def test_the_paired_interval_is_that_of_the_formula():
    rng = np.random.default_rng(5)
    a, b = rng.random(191), rng.random(191)
    found = paired(list(a), list(b))
    gaps = a - b
    half = 1.959964 * gaps.std(ddof=1) / math.sqrt(191)
    assert found.interval == pytest.approx((gaps.mean() - half, gaps.mean() + half), abs=0.05 * half)
    assert found.difference == pytest.approx(gaps.mean())


def test_the_draws_of_a_paired_comparison_are_bounded(monkeypatch):
    drawn = []

    class Counting:
        def __init__(self, seed):
            self._draws = np.random.Generator(np.random.PCG64(seed))

        def integers(self, n, size):
            drawn.append(size[0] * size[1])
            return self._draws.integers(n, size=size)

    monkeypatch.setattr(np.random, "default_rng", Counting)
    paired([1.0, 2.0] * 10_000, [2.0, 1.0] * 10_000)
    assert sum(drawn) == 20_000_000
    assert max(drawn) <= 1_000_000


def test_scipy_agrees():
    stats = pytest.importorskip("scipy.stats")
    for wins, losses in ((0, 5), (7, 12), (40, 61), (3, 3)):
        assert sign_test(wins, losses) == pytest.approx(stats.binomtest(wins, wins + losses).pvalue)
    rng = np.random.default_rng(2)
    a = rng.choice([0.0, 0.1, 0.5, 1.0], 191)
    b = np.where(rng.random(191) < 0.7, a, rng.choice([0.0, 0.5, 1.0], 191))
    for method in ("percentile", "BCa"):
        theirs = stats.bootstrap(
            (a, b),
            lambda x, y, axis=-1: x.mean(axis=axis) - y.mean(axis=axis),
            paired=True,
            n_resamples=9999,
            method=method,
            rng=np.random.default_rng(1),
        ).confidence_interval
        assert paired(list(a), list(b)).interval == pytest.approx((theirs.low, theirs.high), abs=0.004)
