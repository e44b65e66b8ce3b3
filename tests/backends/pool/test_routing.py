"""Which worker gets which item: laws of the routing, for any order of adding, taking and stealing."""

from hypothesis import given, strategies as st

from kshot.backends.pool.dispatcher import Routing
from kshot.backends.texts import common_length

TEXTS = st.text("ab", max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), TEXTS),
        st.tuples(st.just("take"), st.integers(0, 3), st.integers(1, 12)),
        st.tuples(st.just("drop"), st.integers(0, 3)),
    ),
    max_size=60,
)


def taken(routing, worker, at_most):
    """What the dispatcher does for a worker that has nothing to do."""
    if not routing.own(worker):
        routing.steal(worker)
    return routing.take(worker, at_most)


@given(STEPS)
def test_each_item_is_given_once_and_none_is_lost(steps):
    routing, added, given_out = Routing(), 0, []
    for what, *values in steps:
        if what == "add":
            routing.add(added, values[0])
            added += 1
        elif what == "take":
            waiting = len(routing)
            got = taken(routing, *values)
            assert bool(got) == bool(waiting), "a worker gets something as long as anything waits"
            assert len(got) <= values[1]
            given_out += got
        else:
            routing.drop(values[0])
        assert len(given_out) + len(routing) == added
        owned = sum(routing.own(worker) for worker in range(4))
        assert owned in (len(routing), 0), "the parts cover everything, or nobody has one yet"
    while len(routing):
        given_out += taken(routing, 0, 7)
    assert sorted(given_out) == list(range(added))


@given(st.lists(TEXTS, min_size=1, max_size=80), st.integers(1, 5))
def test_what_a_worker_takes_stands_together(texts, workers):
    """Chunks are runs of neighbours of all that waits: nothing that waits has its place inside of one."""
    routing = Routing()
    waiting = {}
    for number, text in enumerate(texts):
        routing.add(number, text)
        waiting[number] = (text, number)
    turn = 0
    while len(routing):
        chunk = [waiting.pop(number) for number in taken(routing, turn % workers, 9)]
        assert chunk == sorted(chunk)
        assert not any(chunk[0] < other < chunk[-1] for other in waiting.values())
        turn += 1


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 40)), min_size=1, max_size=200),
    st.integers(1, 4),
    st.integers(1, 40),
)
def test_no_prefix_is_computed_more_often_than_there_are_workers(items, workers, size):
    """Each worker keeps the prefix that it computed last; the total stays within the law of the issue."""
    prefixes = ["alpha " * 50, "beta " * 50, "beta " * 49 + "gamma ", "delta " * 50, "epsilon " * 50]
    routing = Routing()
    for number, (prefix, question) in enumerate(items):
        routing.add(number, prefixes[prefix] + f"{question:03d}")
    computed, last, turn = 0, {}, 0
    while len(routing):
        worker = turn % workers
        turn += 1
        groups = [items[number][0] for number in taken(routing, worker, size)]
        for group in groups:
            computed += group != last.get(worker)
            last[worker] = group
    used = {group for group, _ in items}
    assert computed <= len(used) + workers * (len(used) - 1) + workers - 1
    assert computed <= len(used) * workers


def test_a_part_is_cut_where_the_sides_have_the_least_in_common():
    routing = Routing()
    texts = [f"{'one' if n < 37 else 'two'} and more text {n:02d}" for n in range(100)]
    for number, text in enumerate(texts):
        routing.add(number, text)
    routing.steal(0)
    routing.steal(1)
    assert [routing.own(0), routing.own(1)] == [37, 63]
    routing.add(100, "one more")
    assert [routing.own(0), routing.own(1)] == [38, 63]


def test_equal_texts_are_divided_too():
    routing = Routing()
    for number in range(10):
        routing.add(number, "the same prompt")
    routing.steal(0)
    routing.steal(1)
    assert routing.own(0) == routing.own(1) == 5
    assert routing.take(0, 99) + routing.take(1, 99) == list(range(10))


@given(st.text("ab"), st.text("ab"))
def test_common_length(one, other):
    length = common_length(one, other)
    assert one[:length] == other[:length]
    assert length == min(len(one), len(other)) or one[length] != other[length]
