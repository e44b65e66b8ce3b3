"""Requests and tokens per minute, and requests at one time; the tests keep the time themselves."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kshot.backends.server.rate_limiter import ConcurrencyLimit, MinuteBudget


@given(
    limit=st.integers(1, 30),
    steps=st.lists(st.tuples(st.floats(0, 40), st.integers(1, 12)), max_size=60),
)
def test_no_minute_exceeds_the_limit_and_no_delay_is_longer_than_needed(limit, steps):
    budget, now, spent = MinuteBudget(limit), 0.0, []
    for gap, wanted in steps:
        amount = min(wanted, limit)
        now += gap
        delay = budget.delay(now, amount)
        recent = sum(a for at, a in spent if now - at < 60)
        assert (delay == 0) == (recent + amount <= limit)
        if delay:  # a little earlier the minute would exceed the limit
            early = now + delay * 0.999 - 1e-6
            assert sum(a for at, a in spent if early - at < 60) + amount > limit
            now += delay + 1e-9
            assert budget.delay(now, amount) == 0
        budget.spend(now, amount)
        spent.append((now, amount))
    for at, _ in spent:
        assert sum(a for when, a in spent if at <= when < at + 60) <= limit


def test_an_estimate_is_corrected_while_it_is_remembered():
    tokens = MinuteBudget(100)
    entry = tokens.spend(0.0, 90)
    assert tokens.delay(1.0, 50) == 59.0
    tokens.settle(entry, 20)
    assert tokens.delay(1.0, 50) == 0
    tokens.spend(1.0, 50)
    assert tokens.delay(60.5, 100) == pytest.approx(0.5)
    tokens.settle(entry, 5000)  # expired by now: this changes nothing
    assert tokens.delay(61.0, 100) == 0


def test_an_amount_above_the_whole_limit_is_spent_alone():
    tokens = MinuteBudget(10)
    assert tokens.delay(0.0, 500) == 0
    tokens.spend(0.0, 500)
    assert tokens.delay(1.0, 1) == 59.0
    assert tokens.delay(60.0, 500) == 0


def rounds(limit, count, latency=0.05, now=100.0):
    """Let as many requests succeed as may run at one time, ``count`` times."""
    for _ in range(count):
        for _ in range(int(limit.current)):
            limit.succeeded(now + latency, now, int(limit.current))
        now += latency
    return now


def test_the_limit_doubles_while_the_latency_is_low_and_stops_when_it_is_not():
    limit = ConcurrencyLimit(200)
    assert limit.current == 100
    rounds(limit, 1)
    assert limit.current == 200
    assert tuple(ConcurrencyLimit(maximum).current for maximum in (3, 10, 1000)) == (3, 10, 100)
    slow = ConcurrencyLimit(1000)
    slow.current, slow._round_size = 8.0, 8
    rounds(slow, 3)
    before = slow.current
    rounds(slow, 5, latency=2.0)
    assert slow.current <= 2 * before < 1000


def test_a_limit_that_is_not_reached_does_not_grow():
    limit = ConcurrencyLimit(200)
    for _ in range(100):
        limit.succeeded(1.05, 1.0, 3)
    assert limit.current == 100


def test_refusals_at_one_time_count_once_and_one_request_goes_alone_after_the_pause():
    limit = ConcurrencyLimit(100)
    now = rounds(limit, 4)
    for _ in range(100):
        limit.failed(now, now - 0.05, 1.0, overloaded=True, retry_after=5.0)
    assert limit.current == pytest.approx(70)
    assert not limit.may_start(now + 4.9, 0)
    assert limit.may_start(now + 5.1, 0)
    assert not limit.may_start(now + 5.1, 1)
    limit.failed(
        now + 5.2, now + 5.1, 1.0, overloaded=True, retry_after=5.0
    )  # refused again: another single try, later
    assert not limit.may_start(now + 10, 0)
    limit.succeeded(now + 10.3, now + 10.25, 1)
    assert limit.may_start(now + 10.4, 20)
    rounds(limit, 30, now=now + 11)
    assert limit.current == 100


def test_failures_in_a_row_pause_longer_each_time():
    limit, now, pauses = ConcurrencyLimit(100), 100.0, []
    for _ in range(10):
        while not limit.may_start(now, 0):
            now = limit.resume_at
        limit.failed(now + 0.01, now, 1.0, overloaded=True)
        now += 0.02
        pauses.append(max(0.0, limit.resume_at - now))
    assert pauses[:2] == [0, 0]
    assert [round(p, 1) for p in pauses[2:]] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_single_failure_causes_no_pause():
    limit = ConcurrencyLimit(100)
    now = rounds(limit, 4)
    limit.failed(now, now - 0.01, 1.0, overloaded=False)
    assert limit.may_start(now, 90)
    limit.failed(now, now - 0.01, 1.0, overloaded=True)
    assert limit.may_start(now, 60)
    assert not limit.may_start(now, 75)
