"""Intervals contain their estimate and stay on the scale; tests keep their laws; against independent computations."""

import math
from fractions import Fraction

from hypothesis import strategies as st

from kshot.core.errors import DataError
from kshot.statistics import compare, holm, interval, macro_interval, mean, paired, share_test, sign_test, wilson
from kshot.statistics.paired import Pair
from tests.fuzz.harness import Told, fuzz, told

shares = st.floats(0, 100)
binary = st.sampled_from([0.0, 100.0])
wild = st.floats(allow_nan=False, allow_infinity=False, width=32) | st.sampled_from(
    [0.0, -0.0, 1e-300, 1e300, -1e300, 5e-324]
)
any_values = st.lists(st.floats() | wild, max_size=12)
SLACK = 1e-6


@fuzz(
    st.lists(shares, min_size=1, max_size=30) | st.lists(binary, min_size=1, max_size=30), st.booleans(), st.booleans()
)
def test_an_interval_contains_its_estimate_and_stays_on_the_scale(values, bounded, right_or_wrong):
    found = interval(values, bounds=(0.0, 100.0) if bounded else None, binary=right_or_wrong)
    if found is None:
        assert not bounded
        assert len(values) == 1
        return
    low, high = found
    assert low - SLACK <= mean(values) <= high + SLACK
    if bounded:
        assert low + SLACK >= 0
        assert high - SLACK <= 100
    assert interval(values[::-1], bounds=(0.0, 100.0) if bounded else None, binary=right_or_wrong) == found


@fuzz(any_values, st.none() | st.tuples(st.floats(), st.floats()), st.booleans())
def test_an_interval_of_any_values_is_ordered_or_none(values, bounds, right_or_wrong):
    found = told(interval, values, bounds=bounds, binary=right_or_wrong)
    if found is not None and not isinstance(found, Told):
        assert not found[0] > found[1]


@fuzz(st.integers(0, 2000), st.integers(1, 2000))
def test_wilson_solves_its_equation(right, n):
    right = min(right, n)
    low, high = (end / 100 for end in wilson(right, n))
    share, z2 = right / n, 1.959963984540054**2
    assert low <= share <= high
    for end in (low, high):
        if 0 < end < 1:
            assert math.isclose((end - share) ** 2 * n, z2 * end * (1 - end), rel_tol=1e-6, abs_tol=1e-9)


@fuzz(st.lists(st.lists(shares, min_size=1, max_size=6), min_size=1, max_size=4), st.data())
def test_the_interval_of_an_average_contains_it(groups, data):
    weights = data.draw(st.none() | st.lists(st.floats(0.1, 10), min_size=len(groups), max_size=len(groups)))
    found = macro_interval(groups, bounds=(0.0, 100.0), weights=weights)
    given = weights or [1.0] * len(groups)
    centre = sum(w * mean(group) for w, group in zip(given, groups, strict=True)) / sum(given)
    assert found[0] - SLACK <= centre <= found[1] + SLACK
    assert found[0] >= -SLACK
    assert found[1] <= 100 + SLACK


@fuzz(st.lists(any_values, max_size=3))
def test_the_interval_of_an_average_of_any_values_is_ordered_or_none(groups):
    found = told(macro_interval, groups)
    assert found is None or isinstance(found, Told) or not found[0] > found[1]


# ---- tests ----


@fuzz(st.integers(0, 60), st.integers(0, 60))
def test_the_sign_test_is_the_exact_binomial(wins, losses):
    n = wins + losses
    tail = sum(math.comb(n, k) for k in range(min(wins, losses) + 1))
    assert math.isclose(sign_test(wins, losses), float(min(Fraction(1), Fraction(2 * tail, 2**n))), rel_tol=1e-9)


@fuzz(st.integers(0, 30), st.integers(1, 30), st.integers(0, 30), st.integers(1, 30))
def test_the_share_test_is_fishers(right, n, other, m):
    right, other = min(right, n), min(other, m)
    total = right + other
    chances = {
        k: Fraction(math.comb(n, k) * math.comb(m, total - k), math.comb(n + m, total))
        for k in range(max(0, total - m), min(n, total) + 1)
    }
    expected = sum(chance for chance in chances.values() if chance <= chances[right])
    assert math.isclose(share_test(right, n, other, m), float(expected), rel_tol=1e-6)


pairs = st.lists(st.tuples(shares | binary, shares | binary), min_size=1, max_size=8)


@fuzz(pairs, st.booleans())
def test_a_comparison_does_not_depend_on_order_or_names(values, higher):
    a, b = [x for x, _ in values], [y for _, y in values]
    one = paired(a, b, bounds=(0.0, 100.0), higher_is_better=higher)
    other = paired(b, a, bounds=(0.0, 100.0), higher_is_better=higher)
    again = paired(a[::-1], b[::-1], bounds=(0.0, 100.0), higher_is_better=higher)
    assert 0 < one.p <= 1
    assert math.isclose(one.p, other.p, rel_tol=1e-9)
    assert math.isclose(one.p, again.p, rel_tol=1e-9)
    assert math.isclose(one.difference, -other.difference, abs_tol=1e-9)
    assert (one.wins, one.losses, one.ties) == (other.losses, other.wins, other.ties)
    if one.interval is not None:
        assert one.interval[0] - SLACK <= one.difference <= one.interval[1] + SLACK
    if a == b:
        assert one.p == 1


@fuzz(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=6, max_size=10))
def test_few_pairs_are_tested_by_all_swaps(values):
    """Against a count of all swaps; differences that are all of one size are McNemar's test, which is the same."""
    gaps = [x - y for x, y in values if x != y]
    found = paired([float(x) for x, _ in values], [float(y) for _, y in values])
    hits = sum(
        abs(sum(g if mask >> at & 1 else -g for at, g in enumerate(gaps))) >= abs(sum(gaps))
        for mask in range(2 ** len(gaps))
    )
    assert math.isclose(found.p, hits / 2 ** len(gaps), rel_tol=1e-9)


@fuzz(st.lists(st.tuples(st.floats() | wild, st.floats() | wild), max_size=8))
def test_a_comparison_of_any_values_is_made_or_refused(values):
    found = told(paired, [x for x, _ in values], [y for _, y in values], kind=DataError)
    assert isinstance(found, Told) or 0 <= found.p <= 1


@fuzz(st.lists(st.floats(0, 1), max_size=8))
def test_holm_keeps_the_order_and_never_helps(ps):
    corrected = holm(ps)
    assert all(p <= q <= 1 for p, q in zip(ps, corrected, strict=True))
    order = sorted(range(len(ps)), key=ps.__getitem__)
    assert [corrected[at] for at in order] == sorted(corrected)
    if ps:
        assert math.isclose(min(corrected), min(1.0, len(ps) * min(ps)))


@fuzz(st.lists(pairs, min_size=1, max_size=3), examples=20)
def test_a_family_is_corrected_together(family):
    found = compare([Pair([x for x, _ in values], [y for _, y in values]) for values in family])
    assert [each.p_corrected for each in found] == holm([each.p for each in found])
