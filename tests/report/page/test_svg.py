"""Scales and ticks: exact, monotone, and covering what is drawn."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from kshot.report.page.svg import (
    SHADES,
    Bands,
    Scale,
    apart,
    axis_ticks,
    drawing,
    marker,
    nice_step,
    nice_ticks,
    percent,
    px,
    shade,
    tick_text,
)
from tests.report.page.page_reading import tree

values = st.floats(-1e9, 1e9, allow_subnormal=False)
any_number = st.floats(allow_nan=False, allow_infinity=False)


@given(values, values)
def test_ticks_cover_their_range_with_equal_steps(one, other):
    low, high = min(one, other), max(one, other)
    ticks = nice_ticks(low, high)
    slack = 1e-9 * max(1.0, abs(low), abs(high))
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    assert all(a < b for a, b in pairwise(ticks))
    assert len(ticks) <= 9
    if high - low > 1e-3:
        steps = [b - a for a, b in pairwise(ticks)]
        assert max(steps) == pytest.approx(min(steps), rel=1e-6, abs=slack)


@given(any_number, any_number)
def test_ticks_of_the_strangest_ranges_are_numbers_in_order(one, other):
    ticks = nice_ticks(min(one, other), max(one, other))
    assert ticks
    assert all(a < b for a, b in pairwise(ticks))


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-7, 12, [-10, -5, 0, 5, 10, 15]),
        (3, 3, [2.4, 2.6, 2.8, 3.0, 3.2, 3.4, 3.6]),
    ],
)
def test_ticks_are_round_numbers(low, high, ticks):
    assert nice_ticks(low, high) == pytest.approx(ticks)


def test_a_step_is_a_round_number():
    assert [nice_step(0, high) for high in (5, 9, 12, 24, 49)] == pytest.approx([1, 2, 2.5, 5, 10])


def test_an_axis_has_the_whole_scale_of_a_metric_or_what_is_drawn():
    assert axis_ticks([40, 60], [0, 100])[::5] == [0, 100]
    assert axis_ticks([40, 60], [0, None]) == [40, 45, 50, 55, 60]
    assert axis_ticks([40, 60]) == [40, 45, 50, 55, 60]
    for bounds in ([-math.inf, 100], [0, math.inf], [-1.7e308, 1.7e308], [math.nan, 1]):
        assert axis_ticks([40, 60], bounds) == [40, 45, 50, 55, 60]
    assert axis_ticks([]) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])


@pytest.mark.parametrize(
    ("ticks", "texts"),
    [
        ([0, 20, 40], ["0", "20", "40"]),
        ([0, 0.2, 0.4], ["0.0", "0.2", "0.4"]),
        ([0, 2.5, 5], ["0.0", "2.5", "5.0"]),
        ([0, 0.25, 0.5], ["0.00", "0.25", "0.50"]),
        ([0, 5e8, 1e9], ["0", "5e+08", "1e+09"]),
    ],
)
def test_ticks_are_written_with_the_digits_they_need(ticks, texts):
    assert [tick_text(tick, ticks) for tick in ticks] == texts


@given(st.lists(values, min_size=2, max_size=2, unique=True).map(sorted), st.lists(values, min_size=2).map(sorted))
def test_positions_are_monotone_and_within_the_plot(ends, drawn):
    scale = Scale(*ends, 10.0, 250.0)
    places = [scale(value) for value in drawn]
    assert all(a <= b for a, b in pairwise(places))
    assert all(10.0 <= place <= 250.0 for place in places)
    assert scale(ends[0]) == 10.0
    assert scale(ends[1]) == pytest.approx(250.0)


def test_positions_are_exact():
    assert Scale(0, 100, 0, 1)(66.66666666666667) == pytest.approx(2 / 3)
    assert Scale(0, 100, 210, 14)(25) == 161
    assert Scale(5, 5)(5) == 0.5
    assert Scale(-1.7e308, 1.7e308)(0) == 0.5


def test_bands_share_the_width():
    bands = Bands(4, 0, 80)
    assert [bands(at) for at in range(4)] == [10, 30, 50, 70]


@given(st.lists(st.floats(0, 200), max_size=12))
def test_labels_keep_their_distance_and_their_order(wanted):
    places = apart(wanted, 14, 0, 200)
    ordered = sorted(range(len(wanted)), key=wanted.__getitem__)
    assert all(places[b] - places[a] >= 14 - 1e-6 for a, b in pairwise(ordered))
    assert all(place <= 200 for place in places)


def test_labels_that_have_room_stay():
    assert apart([20, 60, 100], 14, 0, 200) == [20, 60, 100]


def test_shades_go_from_the_first_to_the_last():
    scale = Scale(0, 100)
    assert [shade(value, scale) for value in (0, 9.9, 10, 55, 100)] == ["h0", "h0", "h1", "h5", f"h{SHADES - 1}"]
    assert shade(-5, scale) == "h0"


def test_coordinates_are_short():
    assert [px(3.0), px(3.14159), px(-0.0), percent(1 / 3)] == ["3", "3.14", "0", "33.33%"]


def test_series_have_shapes_of_their_own():
    shapes = {tree(marker(at, "0", 0)).find("svg/path").get("d") for at in range(7)}
    assert len(shapes) == 7


def test_a_picture_says_what_it_is():
    picture = tree(drawing("x", 'a "b" <c>', [], width=10, height=20, class_="lines")).find("svg")
    assert (picture.get("role"), picture.get("aria-labelledby"), picture.get("viewBox")) == (
        "img",
        "x-title",
        "0 0 10 20",
    )
    assert picture.find("title").text == 'a "b" <c>'
