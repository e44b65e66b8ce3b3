"""Confidence intervals of figures and of averages."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kshot.configs.evaluators.basic import same_number, same_text
from kshot.configs.evaluators.repeats import repeated
from kshot.configs.evaluators.scores import RightByTurn, RightOrWrong
from kshot.lookup.scoring import LookupAccuracy
from kshot.metrics import F1, Accuracy, Bleu, Em, GPTEval, Metric, PassAtK, Perplexity
from kshot.metrics.exact import ExactMatch, SquadEm, SquadF1
from kshot.metrics.perplexity import Greedy
from kshot.statistics import interval, macro_interval, mean, wilson
from kshot.statistics.intervals import within_scale
from kshot.statistics.resampling import student_point
from tests.measures import measure

PPL = measure(Perplexity()).aggregate


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_ends_solve_its_equation(right_n):
    """The ends are the shares q for which |p - q| = z·√(q(1-q)/n)."""
    right, n = right_n
    for end in wilson(right, n):
        q = end / 100
        assert abs(right / n - q) == pytest.approx(1.959964 * math.sqrt(max(0, q * (1 - q)) / n), abs=1e-6)


def test_wilson_known_values():
    assert interval([100.0] * 8 + [0.0] * 2) == pytest.approx((49.016, 94.331), abs=1e-3)
    assert interval([100.0]) == pytest.approx((20.654, 100.0), abs=1e-3)
    assert interval([0.0] * 10) == pytest.approx((0.0, 27.753), abs=1e-3)


@given(st.lists(st.floats(0, 99), min_size=4, max_size=50).filter(lambda v: any(x not in (0.0, 100.0) for x in v)))
def test_plain_values_of_an_unknown_scale(values):
    stats = pytest.importorskip("scipy.stats")
    low, high = interval(values)
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
    assert low == pytest.approx(np.mean(values) - half, rel=2e-3, abs=2e-3 * half + 1e-9)
    assert high == pytest.approx(np.mean(values) + half, rel=2e-3, abs=2e-3 * half + 1e-9)


def test_values_that_leave_their_scale_are_of_an_unknown_scale():
    values = [10.0, 20.0, 140.0]
    assert interval(values, bounds=(0.0, 100.0)) == interval(values)


def test_a_score_of_any_value_on_a_known_scale():
    """Where nearly all scores are equal, their own spread says little: the ends of the scale do."""
    low, high = interval([10.0] * 20, bounds=(0.0, 100.0))
    assert low < 10 < high
    assert high > 20
    assert interval([37.0], bounds=(0.0, 100.0)) is not None


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (0.0, 100.0), (1.0, 10.0), (-1.0, 1.0)])
def test_intervals_do_not_depend_on_the_scale(bounds):
    low, high = bounds
    shares = [0.0, 0.25, 0.25, 0.5, 1.0, 1.0, 1.0, 1 / 3]
    expected = [low + (high - low) * end for end in interval(shares, bounds=(0.0, 1.0))]
    assert interval([low + (high - low) * share for share in shares], bounds=bounds) == pytest.approx(expected)


@pytest.mark.parametrize("order", ["reversed", "shuffled"])
def test_the_order_of_the_samples_does_not_matter(order):
    rng = np.random.default_rng(4)
    plain = list(rng.choice([0.0, 0.1, 1 / 3, 1.0], 30))
    pairs = [(float(x), float(n)) for x, n in zip(rng.gamma(4, 2.5, 30), rng.integers(1, 9, 30), strict=True)]
    at = list(reversed(range(30))) if order == "reversed" else list(rng.permutation(30))
    assert interval([plain[i] for i in at], bounds=(0.0, 1.0)) == interval(plain, bounds=(0.0, 1.0))
    assert interval([pairs[i] for i in at], PPL) == interval(pairs, PPL)
    assert interval([plain[i] for i in at]) == interval(plain)
    groups, turned = [plain[:10], plain[10:]], [plain[:10][::-1], plain[10:][::-1]]
    assert macro_interval(turned, bounds=(0.0, 1.0)) == macro_interval(groups, bounds=(0.0, 1.0))


def test_too_few_values():
    assert interval([]) is None
    assert interval([37.0]) is None
    assert interval([(1.0, 2.0)], PPL) is None
    assert macro_interval([]) is None
    assert macro_interval([[1.0, 2.0], [3.0]]) is None
    assert interval([math.inf, 1.0]) is None


def test_a_metrics_own_reduce_is_seen_to_be_the_mean():
    values = [100.0, 0.0, 100.0, 100.0]
    assert interval(values, lambda part: sum(part) / len(part)) == interval(values, mean)


def test_a_figure_that_is_not_the_mean_is_resampled():
    values = list(np.random.default_rng(1).normal(50, 10, 400))
    low, high = interval(values, lambda part: float(np.median(part)))
    assert low < np.median(values) < high
    assert 1 < high - low < 5


def test_the_bootstrap_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(120):
        pairs = [(float(x), 5.0) for x in rng.gamma(4, 2.5, 60)]  # 10 nats over 5 tokens on average: e²
        low, high = interval(pairs, PPL)
        covered += low <= math.exp(2) <= high
    assert 0.87 <= covered / 120 <= 1.0


def test_the_bootstrap_of_a_mean_agrees_with_the_formula():
    values = list(np.random.default_rng(3).normal(50, 10, 300))
    ratio = [(value, 1.0) for value in values]
    found = interval(ratio, lambda part: sum(x for x, _ in part) / sum(n for _, n in part))
    assert found == pytest.approx(interval(values), abs=0.2)


def test_it_is_deterministic():
    rows = [Bleu().rate(f"the cat sat on mat {i}", "the cat sat on a mat 3")["Corpus_BLEU"] for i in range(20)]
    reduce = measure(Bleu(), "Corpus_BLEU").aggregate
    first = interval(rows, reduce)
    assert first == interval(rows, reduce)
    assert first[0] <= reduce(rows) <= first[1]


def test_sums_that_do_not_add_up_are_resampled_whole():
    pairs = [(float(x), float(x) + 0.1 * (i % 3)) for i, x in enumerate(range(30))]

    def correlation(part):
        first, second = zip(*part, strict=True)
        return float(np.corrcoef(first, second)[0, 1]) if len(part) > 2 else 0.0

    low, high = interval(pairs, correlation)
    assert 0.9 < low <= high <= 1.0


def test_macro_interval():
    groups = [[10.0, 20.0, 30.0], [50.0, 70.0]]
    variances = [100 / 3 / 4, 200 / 2 / 4]
    degrees = sum(variances) ** 2 / (variances[0] ** 2 / 2 + variances[1] ** 2 / 1)  # Welch's
    half = student_point(degrees) * math.sqrt(sum(variances))
    assert macro_interval(groups) == pytest.approx((40 - half, 40 + half))
    low, high = macro_interval([[100.0] * 10, [0.0] * 10])
    assert 30 < low < 50 < high < 70


def test_a_macro_interval_of_equal_groups_is_near_that_of_all_their_values():
    rng = np.random.default_rng(1)
    shares = [list(100.0 * (rng.random(100) < 0.9)) for _ in range(12)]
    together = interval([value for group in shares for value in group])
    assert macro_interval(shares) == pytest.approx(together, abs=0.2)
    scores = [list(rng.choice([0.0, 0.0, 0.5, 1.0], 100)) for _ in range(12)]
    together = interval([value for group in scores for value in group], bounds=(0.0, 1.0))
    assert macro_interval(scores, bounds=(0.0, 1.0)) == pytest.approx(together, abs=0.003)


def test_a_small_group_among_large_ones():
    """It shows little of its own variance, and counts as much as the others."""
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(400):
        groups = [list(100.0 * (rng.random(n) < 0.5)) for n in (2, 40, 80, 120, 160, 200)]
        low, high = macro_interval(groups)
        covered += low <= 50 <= high
    assert covered / 400 > 0.9


def test_groups_that_differ_do_not_widen_a_macro_interval():
    """Only the spread within the groups is chance."""
    mixed = [[100.0] * 49 + [0.0], [0.0] * 49 + [100.0]]
    alike = [[100.0, 0.0] * 25] * 2
    (low, high), (lowest, highest) = macro_interval(mixed), macro_interval(alike)
    assert high - low < (highest - lowest) / 2


def test_weights_of_groups():
    groups = [[100.0] * 18 + [0.0] * 2, [0.0] * 10]
    weighted = macro_interval(groups, weights=[20.0, 10.0])
    assert weighted[0] < 60.0 < weighted[1]
    assert macro_interval(groups, weights=[3.0, 3.0]) == macro_interval(groups)
    assert macro_interval([groups[0]], weights=[7.0]) == pytest.approx(wilson(18, 20), abs=1.5)


def test_shares_on_another_scale():
    percent = [100.0] * 8 + [0.0] * 2
    shares = [value / 100 for value in percent]
    whole = partial(interval, bounds=(0.0, 1.0), binary=True)
    assert whole(shares) == pytest.approx([end / 100 for end in interval(percent)])
    assert whole([0.0] * 10) == pytest.approx((0.0, 0.27753), abs=1e-5)
    assert whole([1.0] * 10)[0] == pytest.approx(0.72247, abs=1e-5)
    groups = [percent, [0.0] * 5]
    found = macro_interval([[value / 100 for value in group] for group in groups], bounds=(0.0, 1.0))
    assert found == pytest.approx([end / 100 for end in macro_interval(groups)])


def test_the_interval_of_many_equal_sums():
    assert interval([(1.0, 2.0)] * 50_000, PPL) == pytest.approx((math.exp(0.5),) * 2)


def test_an_interval_is_cut_to_the_scale():
    assert within_scale(None, measure(Accuracy()), [1.0]) is None
    assert within_scale((-3.0, 104.0), measure(Accuracy()), [1.0]) == [0.0, 100.0]
    assert within_scale((0.5, 10.5), measure(GPTEval()), [1.0, 10.0]) == [1.0, 10.0]
    assert within_scale((-0.5, 7.0), measure(Perplexity()), [(1.0, 1.0)]) == [0.0, 7.0]
    assert within_scale((-3.0, 104.0), measure(Metric()), [1.0]) == [-3.0, 104.0]
    assert within_scale((-3.0, 104.0), measure(Metric()), [0.0, 100.0]) == [0.0, 100.0]  # shares, by their values


def test_equal_ratings_have_an_interval_with_a_width():
    low, high = interval([10.0] * 5, bounds=measure(GPTEval()).bounds)
    assert (low < 8, high) == (True, 10.0)


# ---- right or wrong, and scores that could lie between the ends ----


@pytest.mark.parametrize("right", [0, 1, 9, 20])
def test_scores_that_all_lie_at_the_ends_are_no_shares_unless_the_metric_says_so(right):
    """Wilson's interval would be too narrow: scores between the ends may just not have come up."""
    values = [1.0] * right + [0.0] * (20 - right)
    low, high = interval(values, bounds=(0.0, 1.0))
    narrow, wide = interval(values, bounds=(0.0, 1.0), binary=True)
    assert (narrow, wide) == pytest.approx([end / 100 for end in wilson(right, 20)])
    assert high - low > wide - narrow
    beta = pytest.importorskip("scipy.stats").beta  # Clopper and Pearson's
    assert low == pytest.approx(beta.ppf(0.025, right, 21 - right) if right else 0.0, abs=2e-3)
    assert high == pytest.approx(beta.ppf(0.975, right + 1, 20 - right) if right < 20 else 1.0, abs=2e-3)


@pytest.mark.parametrize(
    ("metric", "is_binary"),
    [
        (Accuracy(), True), (Accuracy("Norm"), True), (Accuracy.by(["acc_norm"], "acc")[1], True), (Em(), True),
        (Em("leave_one_out"), False), (ExactMatch(), True), (SquadEm(), True), (Greedy(), True),
        (LookupAccuracy("UR", ["first_word"]), True), (RightByTurn("Accuracy", same_text), True),
        (RightOrWrong("Accuracy", same_number), True), (F1(), False),
        (SquadF1(), False), (Bleu(), False), (PassAtK(), False), (GPTEval(), False), (repeated(Em(), 2), False),
        (Metric(), False),
    ],
)  # fmt: skip
def test_which_metrics_are_right_or_wrong(metric, is_binary):
    assert measure(metric).binary is is_binary


@pytest.mark.parametrize("past", [4e-14, -4e-14])
def test_rounding_does_not_leave_the_scale(past):
    values, rounded = [100.0, 40.0, 0.0, 100.0], [100.0 + past, 40.0, -past, 100.0 + past]
    assert interval(rounded, bounds=(0.0, 100.0)) == pytest.approx(interval(values, bounds=(0.0, 100.0)))
    groups = [[100.0 + past] * 9, [100.0] * 9]
    assert macro_interval(groups, bounds=(0.0, 100.0)) == pytest.approx(macro_interval([[100.0] * 9] * 2))
    assert interval([100.001, 40.0], bounds=(0.0, 100.0)) == interval([100.001, 40.0])
