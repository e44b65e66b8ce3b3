"""Systems on the same samples: the difference, its interval, who is ahead, and families of comparisons."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kshot.core.errors import DataError
from kshot.metrics import Bleu, Perplexity
from kshot.statistics import Pair, compare, holm, paired
from tests.measures import measure

PPL = measure(Perplexity()).aggregate


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


def test_where_lower_is_better_the_lower_one_wins():
    a, b = [(1.0, 1.0)] * 30, [(2.0, 1.0)] * 30
    found = paired(a, b, PPL, higher_is_better=False)
    assert found.difference == pytest.approx(math.e - math.e**2)  # still a - b
    assert (found.wins, found.losses) == (30, 0)
    assert found.p < 0.001
    other = paired(b, a, PPL, higher_is_better=False)
    assert (other.wins, other.losses, other.p) == (0, 30, found.p)
    plain = paired([1.0, 2.0, 3.0], [2.0, 2.0, 1.0], higher_is_better=False)
    assert (plain.wins, plain.losses, plain.ties) == (1, 1, 1)


def test_whether_one_is_ahead():
    better, worse = [0.5, 1.0, 0.5, 1.0] * 20, [0.5, 0.5, 0.25, 1.0] * 20
    for found in (paired(better, worse), paired(worse, better)):
        assert found.decided
        assert (found.interval[0] > 0) == (found.difference > 0)
    assert not paired(better, better).decided
    assert not paired([1.0], [0.0]).decided
    assert not paired([1.0, 0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0, 0.0]).decided  # by chance


@pytest.mark.parametrize(("wins", "p"), [(4, 0.125), (5, 0.0625), (6, 0.03125)])
def test_a_few_wins_without_a_loss(wins, p):
    """4 wins to 0 prove nothing: a fair coin does that in one of eight cases."""
    found = paired([100.0] * wins + [0.0] * 16, [0.0] * (wins + 16), bounds=(0.0, 100.0))
    assert found.p == pytest.approx(p)
    assert found.decided == (p < 0.05)
    assert (found.interval[0] > 0) == found.decided


SCORES = st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 1.0])


@given(st.lists(st.tuples(SCORES, SCORES), min_size=2, max_size=40))
def test_the_interval_excludes_0_exactly_if_p_is_below_5_percent(pairs):
    found = paired(*map(list, zip(*pairs, strict=True)), bounds=(0.0, 1.0))
    low, high = found.interval
    assert (low > 0 or high < 0) == (found.p < 0.05)
    assert low - 1e-9 <= found.difference <= high + 1e-9


@given(st.lists(st.tuples(SCORES, SCORES), min_size=2, max_size=40), st.randoms(use_true_random=False))
def test_neither_the_order_of_samples_nor_that_of_systems_matters(pairs, random):
    a, b = map(list, zip(*pairs, strict=True))
    found, turned = paired(a, b), paired(b, a)
    random.shuffle(pairs)
    shuffled = paired(*map(list, zip(*pairs, strict=True)))
    assert shuffled.p == found.p == turned.p
    assert shuffled.interval == pytest.approx(found.interval)
    assert turned.interval == pytest.approx((-found.interval[1], -found.interval[0]))


def test_the_order_does_not_matter_for_figures_of_sums():
    rng = np.random.default_rng(3)
    a, b = ([(float(x), 5.0) for x in rng.gamma(4, scale, 40)] for scale in (2.5, 2.8))
    at = rng.permutation(40)
    found, turned = paired(a, b, PPL), paired(b, a, PPL)
    shuffled = paired([a[i] for i in at], [b[i] for i in at], PPL)
    assert shuffled.p == found.p == turned.p
    assert shuffled.interval == found.interval
    assert turned.interval == pytest.approx((-found.interval[1], -found.interval[0]))


def test_corpus_figures_are_compared_by_swapping_sentences():
    reduce = measure(Bleu(), "Corpus_BLEU").aggregate
    good = [Bleu().rate(f"the cat {i} sat on the mat", f"the cat {i} sat on the mat")["Corpus_BLEU"] for i in range(12)]
    bad = [Bleu().rate(f"a cat {i} is on a mat", f"the cat {i} sat on the mat")["Corpus_BLEU"] for i in range(12)]
    assert paired(good, bad, reduce).p < 0.01
    mixed = [x if i % 2 else y for i, (x, y) in enumerate(zip(good, bad, strict=True))]
    other = [y if i % 2 else x for i, (x, y) in enumerate(zip(good, bad, strict=True))]
    assert paired(mixed, other, reduce).p > 0.5


def test_values_that_are_not_finite_decide_nothing():
    found = paired([math.inf, 1.0, 2.0], [0.0, 0.0, 0.0])
    assert (found.p, found.interval, found.decided) == (1.0, None, False)


# ---- families ----


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_family_is_corrected_together():
    values = [[100.0] * wins + [0.0] * (40 - wins) for wins in (0, 7, 9)]
    pairs = [Pair(a, b) for a, b in combinations(values, 2)]
    found = compare(pairs)
    assert [each.family for each in found] == [3, 3, 3]
    assert [each.p_corrected for each in found] == pytest.approx(holm([each.p for each in found]))
    alone = [paired(pair.a, pair.b) for pair in pairs]
    assert [each.p for each in alone] == [each.p for each in found]
    assert [each.decided for each in alone] == [True, True, False]
    assert [each.decided for each in compare(pairs * 4)] == [False, True, False] * 4


def test_the_order_of_a_family_does_not_matter():
    rng = np.random.default_rng(8)
    systems = [list(rng.choice([0.0, 0.2, 0.5, 1.0], 60)) for _ in range(4)]
    pairs = [Pair(a, b) for a, b in combinations(systems, 2)]
    there, back = compare(pairs), compare(pairs[::-1])[::-1]
    assert [each.p_corrected for each in there] == [each.p_corrected for each in back]


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
    assert found.interval == pytest.approx((gaps.mean() - half, gaps.mean() + half), abs=0.06 * half)
    assert found.difference == pytest.approx(gaps.mean())


def test_scipy_agrees():
    stats = pytest.importorskip("scipy.stats")
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
