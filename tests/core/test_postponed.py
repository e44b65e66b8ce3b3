"""Requests that are answered in a later call: samples leave the window, and calls together give what one would."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from kshot.core.engine import drive
from kshot.core.errors import BackendError
from kshot.core.memo import MemoryMemo
from kshot.core.postponed import Postponed, RequestsPostponed
from kshot.core.records import Generate, Generated, Prompt, ask


class Later:
    """Postpones whatever it has not been asked in an earlier call."""

    name = fingerprint = "later"
    answers = (Generate,)

    def __init__(self):
        self.ready, self.asked = set(), Counter()

    def serve(self, queue):
        while batch := queue.take():
            for request in batch:
                text = request.prompt.text
                self.asked[text] += text not in self.ready
                yield request, Generated(text + ".") if text in self.ready else Postponed()

    def answer_all(self):
        self.ready = set(self.asked)


def turns(text, count, alike=()):
    """Ask ``count`` turns, with other requests beside the first; the answer is all replies."""
    found = []
    for turn in range(count):
        replies = yield from ask(*(Generate(Prompt(each)) for each in (text, *(alike if not turn else ()))))
        found += [reply.text for reply in replies]
        text = replies[0].text
    return found


def call(model, memo, jobs, **more):
    """Return the answers of a call, and whether it is complete."""
    found = []
    try:
        found.extend((outcome.item, outcome.answer) for outcome in drive(jobs, {"model": model}, memo, **more))
    except RequestsPostponed:
        return found, False
    return found, True


@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 3), st.lists(st.integers(0, 5), max_size=2)), max_size=12
    ),
    window=st.integers(1, 5),
)
def test_calls_together_give_what_one_call_would(jobs, window):
    def made():
        return ((at, turns(f"q{q}", n, [f"q{each}" for each in alike])) for at, (q, n, alike) in enumerate(jobs))

    plain, model, memo = Later(), Later(), MemoryMemo()
    plain.ready = {f"q{q}" + "." * dots for q in range(6) for dots in range(4)}
    expected, _ = call(plain, MemoryMemo(), made())
    for _ in range(5):  # one for each turn, and the last
        found, complete = call(model, memo, made(), window=window)
        assert [each for each in expected if each in found] == found  # in order; those that wait are left out
        model.answer_all()
        if complete:
            break
    assert (found, complete) == (expected, True)
    assert all(times == 1 for times in model.asked.values())  # what is asked alike is in one batch, once


def test_samples_that_wait_are_not_held():
    live, peak = set(), 0

    def job(at):
        nonlocal peak
        live.add(at)
        peak = max(peak, len(live))
        try:
            return (yield from turns(f"q{at}", 1))
        finally:
            live.remove(at)

    model, memo = Later(), MemoryMemo()
    model.ready = {f"q{at}" for at in range(0, 500, 7)}
    found, complete = call(model, memo, ((at, job(at)) for at in range(500)), window=8)
    assert (complete, live, peak) == (False, set(), 8)
    assert [item for item, _ in found] == list(range(0, 500, 7))
    assert len(model.asked) == 500


def test_an_error_of_the_backend_is_raised_though_samples_wait():
    class Breaks(Later):
        def serve(self, queue):
            yield from ((request, Postponed()) for request in queue.take(3))
            raise ValueError("broken")

    with pytest.raises(BackendError, match="broken"):
        call(Breaks(), MemoryMemo(), ((at, turns(f"q{at}", 1)) for at in range(9)))
