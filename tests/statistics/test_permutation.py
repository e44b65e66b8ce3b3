"""Permutation tests against enumeration, against scipy, and their bounds on work."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kshot.statistics import share_test, sign_test
from kshot.statistics.permutation import _random_swaps, sign_flips, swaps


@given(st.integers(0, 12), st.integers(0, 12))
def test_sign_test(wins, losses):
    n, fewer = wins + losses, min(wins, losses)
    expected = min(1.0, 2 * sum(math.comb(n, i) for i in range(fewer + 1)) / 2**n)
    assert sign_test(wins, losses) == pytest.approx(expected)


def test_sign_test_of_many():
    assert sign_test(50_000, 50_000) == 1.0
    assert sign_test(60_000, 40_000) == pytest.approx(0, abs=1e-12)


@given(st.lists(st.sampled_from([-1.0, -0.5, -1 / 3, 0.0, 0.1, 0.25, 1.0]), min_size=1, max_size=9))
def test_few_differences_are_enumerated(gaps):
    signs = product((-1, 1), repeat=len(gaps))
    sums = [abs(sum(sign * gap for sign, gap in zip(each, gaps, strict=True))) for each in signs]
    expected = sum(each >= abs(sum(gaps)) - 1e-9 for each in sums) / len(sums)
    assert sign_flips(np.array(gaps))[0] == pytest.approx(expected)


def test_right_and_wrong_is_mcnemars_exact_test():
    gaps = np.array([100.0] * 12 + [-100.0] * 3 + [0.0] * 50)
    assert sign_flips(gaps)[0] == pytest.approx(sign_test(12, 3))


def test_scipy_agrees():
    stats = pytest.importorskip("scipy.stats")
    for wins, losses in ((0, 5), (7, 12), (40, 61), (3, 3)):
        assert sign_test(wins, losses) == pytest.approx(stats.binomtest(wins, wins + losses).pvalue)
    for table in ((5, 20, 15, 20), (50, 50, 40, 50), (0, 5, 0, 9), (3, 7, 80, 100)):
        theirs = stats.fisher_exact([[table[0], table[1] - table[0]], [table[2], table[3] - table[2]]]).pvalue
        assert share_test(*table) == pytest.approx(theirs)
    rng = np.random.default_rng(6)
    for shift in (0.0, 0.05, 0.1):
        gaps = rng.choice([0.0, 0.5, 1.0, 0.25], 60) - rng.choice([0.0, 0.5, 1.0, 0.2], 60) + shift
        theirs = stats.permutation_test(
            (gaps,), np.mean, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(1)
        ).pvalue
        assert sign_flips(gaps)[0] == pytest.approx(theirs, abs=0.015)


def test_a_large_difference_has_a_p_below_what_random_flips_can_show():
    gaps = np.linspace(0.5, 1.0, 60)
    p, _ = sign_flips(gaps)
    assert 2 / 2**60 <= p < 1e-15  # 2 of all 2⁶⁰ flips are as extreme; the bound is a little above that


def test_the_draws_are_bounded(monkeypatch):
    drawn = []
    unpack = np.unpackbits

    def counting(bits, count):
        drawn.append(count)
        return unpack(bits, count=count)

    monkeypatch.setattr(np, "unpackbits", counting)
    sign_flips(np.linspace(-1, 1.1, 20_000))
    assert sum(drawn) == 9_999 * 20_000  # many pairs do not make p coarse
    assert max(drawn) <= 1_000_000


def test_more_pairs_than_the_draws_allow_have_fewer_swaps():
    assert sum(len(block) for block in _random_swaps(1_000, most_draws=300_000)) == 300
    assert sum(len(block) for block in _random_swaps(1_000, most_draws=1_000)) == 199


def test_swaps_of_any_figure():
    """The median, which no sums tell; few pairs are enumerated."""
    a, b = [1.0, 2.0, 3.0, 4.0, 9.0], [0.0, 2.0, 1.0, 3.0, 3.0]

    def median(values):
        return float(np.median(values))

    found = []
    for turns in product((False, True), repeat=5):
        pairs = [(y, x) if turn else (x, y) for turn, x, y in zip(turns, a, b, strict=True)]
        found.append(abs(median([x for x, _ in pairs]) - median([y for _, y in pairs])))
    expected = sum(each >= abs(median(a) - median(b)) for each in found) / len(found)
    assert swaps(a, b, median) == pytest.approx(expected)
    assert swaps(a, a, median) == 1.0


def test_many_swaps_of_any_figure():
    rng = np.random.default_rng(5)
    a = list(rng.normal(0, 1, 40))
    calls = []

    def median(values):
        calls.append(len(values))
        return float(np.median(values))

    assert swaps(a, [x - 2 for x in a], median) < 0.01
    assert len(calls) < 2100
    calls.clear()
    assert swaps(a, list(rng.permutation(a)), median) > 0.1
    assert len(calls) < 1500  # it stops as soon as p is known well enough


@given(
    st.lists(
        st.tuples(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), st.sampled_from([0.2, 1.0, 3.0])),
        min_size=2,
        max_size=9,
    )
)
def test_weighted_flips_are_those_of_an_enumeration(pairs):
    gaps, weights = (np.array(column) for column in zip(*pairs, strict=True))
    weights = weights / weights.mean()
    seen = abs(float((gaps * weights).sum())) * (1 - 1e-9)
    flips = [
        abs(float((np.array(signs) * gaps * weights).sum())) >= seen for signs in product((1, -1), repeat=len(gaps))
    ]
    p, (low, high) = sign_flips(gaps, largest=1.0, weights=weights)
    assert p == pytest.approx(sum(flips) / len(flips))
    assert low <= float(np.average(gaps, weights=weights)) <= high
    assert sign_flips(-gaps, largest=1.0, weights=weights)[0] == p


def test_the_interval_of_a_weighted_mean_is_that_of_its_test():
    rng = np.random.default_rng(5)
    covered, level = 0, 0
    for _ in range(200):
        gaps = np.concatenate([rng.normal(0.5, 1, 10), rng.normal(0.5, 1, 60)])
        weights = np.concatenate([np.full(10, 3.5), np.full(60, 7 / 12)])
        p, (low, high) = sign_flips(gaps, weights=weights)
        assert (p < 0.05) == (not low <= 0 <= high)
        covered += low <= 0.5 <= high
        level += sign_flips(gaps - 0.5, weights=weights)[0] < 0.05
    assert 0.9 <= covered / 200 <= 0.99
    assert level / 200 <= 0.09


def test_equal_weights_change_nothing():
    gaps = np.random.default_rng(6).normal(0.2, 1, 40)
    assert sign_flips(gaps, weights=np.ones(40)) == sign_flips(gaps)
