"""Whatever order messages arrive in, and whichever workers die: each item gets one result, and no worker is forgotten.

The workers are simulated in one thread, with the inbox of the real ones, so that chance decides on every order.
"""

from collections import Counter, deque
from itertools import count

import pytest
from hypothesis import given, strategies as st

from kshot.backends.pool import dispatcher as dispatching
from kshot.backends.pool.dispatcher import MAX_DEATHS, Dispatcher, Lost
from kshot.backends.pool.worker import (
    Begun,
    Died,
    GiveBack,
    GivenBack,
    ItemResults,
    Opened,
    Placed,
    WorkChunk,
    WorkQueue,
)

STEPS = 120
"""Enough for workers to run dry, give back and die again and again in one schedule."""


class Worker:
    """What a real one has in its threads and pipes, moved by hand."""

    def __init__(self):
        self.messages, self.events, self.results = deque(), [Placed("here"), Opened("facts")], []
        self.inbox = WorkQueue(lambda: self.events.append(Begun()))
        self.under_way = deque()
        self.unanswered = {}  # what the dispatcher has sent to it and has not heard of

    def receive(self):
        if not self.messages:
            return
        match self.messages.popleft():
            case WorkChunk(items):
                self.inbox.add(items)
            case GiveBack():
                self.events.append(GivenBack(self.inbox.give_back()))

    def take(self, at_most):
        self.under_way.extend(self.inbox.take(at_most))

    def answer(self):
        if self.under_way:
            number, payload = self.under_way.popleft()
            self.results.append((number, f"answer to {payload}"))

    def sends(self):
        """Return all since the last time, put together as an outbox does it."""
        found = [ItemResults(tuple(self.results), None), *self.events] if self.results else self.events
        for event in found:
            match event:
                case ItemResults(results):
                    self.unanswered = {n: p for n, p in self.unanswered.items() if n not in dict(results)}
                case GivenBack(numbers):
                    self.unanswered = {n: p for n, p in self.unanswered.items() if n not in numbers}
        self.results, self.events = [], []
        return found


class Simulation:
    """A launcher of simulated workers, and the dispatcher that uses it."""

    def __init__(self, workers):
        self.payloads, self.results, self.deaths = 0, {}, Counter()
        self.dispatcher = Dispatcher(self, None, workers, where="the test")

    # ---- the launcher ----

    def start(self, _job, workers, report):
        self.report = report
        self.workers = [Worker() for _ in range(workers)]

    def restart(self, worker):
        self.workers[worker] = Worker()

    def send(self, worker, message):
        self.workers[worker].messages.append(message)
        if isinstance(message, WorkChunk):
            self.workers[worker].unanswered |= dict(message.items)

    # ---- what may happen ----

    def anything(self, chance):
        """Do one of the things that may happen next."""
        number = chance.randrange(len(self.workers))
        worker = self.workers[number]
        happen = {
            lambda: self.add(chance.choice(["a", "ab", "b"]), chance.randint(1, 12)): 1,
            self.step: 4,
            worker.receive: 4,
            lambda: worker.take(chance.choice([None, 1, 1, 2, 3])): 4,
            worker.answer: 4,
            lambda: self.deliver(number): 4,
            lambda: self.die(number): 0.3,
        }
        (chosen,) = chance.choices([*happen], [*happen.values()])
        chosen()

    def add(self, text, number):
        for _ in range(number):
            self.dispatcher.add(self.payloads, text)
            self.payloads += 1

    def step(self):
        for payload, result in self.dispatcher.step():
            assert payload not in self.results, "it was answered already"
            self.results[payload] = result

    def deliver(self, worker):
        if events := self.workers[worker].sends():
            self.report(worker, events)

    def die(self, worker):
        """Lose a worker that has work, with all that it has not sent."""
        if lost := self.workers[worker].unanswered:
            self.deaths.update(lost.values())
            self.report(worker, [Died("killed")])
            self.step()

    def finish(self, at_most):
        """Have everybody do what there is to do, until nobody does anything."""
        idle = False
        while not idle:
            before = self.dispatcher.unanswered
            self.step()
            idle = self.dispatcher.unanswered == before
            for number, worker in enumerate(self.workers):
                idle &= not (worker.messages or worker.events or worker.results or worker.inbox._items)
                while worker.messages:
                    worker.receive()
                worker.take(at_most)
                idle &= not worker.under_way
                while worker.under_way:
                    worker.answer()
                self.deliver(number)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """How much a worker gets depends on how fast it is: here every look at the clock is a hundredth of a second later."""
    ticks = count()
    monkeypatch.setattr(dispatching, "monotonic", lambda: next(ticks) / 100)


@given(st.integers(1, 4), st.randoms(use_true_random=True), st.none() | st.integers(1, 3))
def test_each_item_has_one_result_in_any_order_of_events(workers, chance, at_most):
    simulation = Simulation(workers)
    for _ in range(STEPS):
        simulation.anything(chance)
    simulation.finish(at_most)
    assert simulation.results.keys() == set(range(simulation.payloads)), "some were never answered"
    for payload, result in simulation.results.items():
        if isinstance(result, Lost):
            assert simulation.deaths[payload] >= MAX_DEATHS, "it failed for the deaths of others"
        else:
            assert result == f"answer to {payload}"
    simulation.add("a", 100)
    simulation.step()
    assert all(worker.messages for worker in simulation.workers), "a worker that has nothing to do was forgotten"
