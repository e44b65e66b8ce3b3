"""Requests and tokens a minute, and how many run at one time, with a clock of the test's own."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kshot.backends.server.limits import Allowance, Pace


@given(
    limit=st.integers(1, 30),
    steps=st.lists(st.tuples(st.floats(0, 40), st.integers(1, 12)), max_size=60),
)
def test_no_minute_sees_more_than_the_limit_and_nobody_waits_in_vain(limit, steps):
    allowance, now, spent = Allowance(limit), 0.0, []
    for gap, wanted in steps:
        amount = min(wanted, limit)
        now += gap
        wait = allowance.wait(now, amount)
        recent = sum(a for at, a in spent if now - at < 60)
        assert (wait == 0) == (recent + amount <= limit)
        if wait:  # just before it is too early; then it is time
            early = now + wait * 0.999 - 1e-6
            assert sum(a for at, a in spent if early - at < 60) + amount > limit
            now += wait + 1e-9
            assert allowance.wait(now, amount) == 0
        allowance.spend(now, amount)
        spent.append((now, amount))
    for at, _ in spent:
        assert sum(a for when, a in spent if at <= when < at + 60) <= limit


def test_an_estimate_is_settled_while_it_is_remembered():
    tokens = Allowance(100)
    entry = tokens.spend(0.0, 90)
    assert tokens.wait(1.0, 50) == 59.0
    tokens.settle(entry, 20)
    assert tokens.wait(1.0, 50) == 0
    tokens.spend(1.0, 50)
    assert tokens.wait(60.5, 100) == pytest.approx(0.5)
    tokens.settle(entry, 5000)  # forgotten by now: it changes nothing
    assert tokens.wait(61.0, 100) == 0


def test_more_than_the_whole_limit_goes_alone():
    tokens = Allowance(10)
    assert tokens.wait(0.0, 500) == 0
    tokens.spend(0.0, 500)
    assert tokens.wait(1.0, 1) == 59.0
    assert tokens.wait(60.0, 500) == 0


def rounds(pace, count, latency=0.05, now=100.0):
    for _ in range(count):
        for _ in range(int(pace.limit)):
            pace.succeeded(now + latency, now, int(pace.limit))  # one more runs as soon as it may
        now += latency
    return now


def test_it_doubles_while_latency_holds_and_stops_where_it_does_not():
    pace = Pace(200)
    assert pace.limit == 100
    rounds(pace, 1)
    assert pace.limit == 200
    assert (Pace(3).limit, Pace(10).limit, Pace(1000).limit) == (3, 10, 100)
    slow = Pace(1000)
    slow.limit, slow._size = 8.0, 8
    rounds(slow, 3)
    at = slow.limit
    rounds(slow, 5, latency=2.0)
    assert slow.limit <= 2 * at < 1000


def test_a_limit_that_nobody_reaches_does_not_grow():
    pace = Pace(200)
    for _ in range(100):
        pace.succeeded(1.05, 1.0, 3)
    assert pace.limit == 100


def test_a_wave_of_refusals_counts_once_and_the_way_back_begins_with_one():
    pace = Pace(100)
    now = rounds(pace, 4)
    for _ in range(100):
        pace.failed(now, now - 0.05, 1.0, crowded=True, after=5.0)
    assert pace.limit == pytest.approx(70)
    assert not pace.may_start(now + 4.9, 0)
    assert pace.may_start(now + 5.1, 0)
    assert not pace.may_start(now + 5.1, 1)
    pace.failed(now + 5.2, now + 5.1, 1.0, crowded=True, after=5.0)  # still shut: another single try, later
    assert not pace.may_start(now + 10, 0)
    pace.succeeded(now + 10.3, now + 10.25, 1)
    assert pace.may_start(now + 10.4, 20)
    rounds(pace, 30, now=now + 11)
    assert pace.limit == 100


def test_failures_in_a_row_pause_longer_each_time():
    pace, now, pauses = Pace(100), 100.0, []
    for _ in range(10):
        while not pace.may_start(now, 0):
            now = pace.resume_at
        pace.failed(now + 0.01, now, 1.0, crowded=True)
        now += 0.02
        pauses.append(max(0.0, pace.resume_at - now))
    assert pauses[:2] == [0, 0]
    assert [round(p, 1) for p in pauses[2:]] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_single_failure_pauses_nobody():
    pace = Pace(100)
    now = rounds(pace, 4)
    pace.failed(now, now - 0.01, 1.0, crowded=False)
    assert pace.may_start(now, 90)
    pace.failed(now, now - 0.01, 1.0, crowded=True)
    assert pace.may_start(now, 60)
    assert not pace.may_start(now, 75)
