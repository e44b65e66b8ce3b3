"""The workers of one queue: never more than allowed, and none idle while requests are pending."""

import asyncio

import pytest

from kshot.backends.server import rate_limiter
from kshot.backends.server.event_loop import EventLoopHandle, WorkerPool
from kshot.core.records import Generated
from tests.backends.server.clients import chat_requests
from tests.tiny_models import Queue, answers_of


class Pool:
    """A backend of which only the workers are real: ``respond`` answers."""

    def __init__(self, respond, max_workers):
        self._respond, self._max_workers = respond, max_workers
        self.loop = EventLoopHandle()

    def serve(self, queue):
        return WorkerPool(self.loop, self._respond, self._max_workers).serve(queue)


def served(respond, requests, max_workers):
    pool = Pool(respond, max_workers)
    texts = [(request, response.text) for request, response in answers_of(pool, requests)]
    assert len(texts) == len(requests)
    pool.loop.close()
    return dict(texts)


@pytest.mark.parametrize("max_workers", [1, 2, 7])
def test_another_worker_replaces_one_that_backs_off(max_workers):
    active, all_active = [0], asyncio.Event()

    async def respond(request):
        if request is first:
            waiting = asyncio.create_task(rate_limiter.backoff(600))
            await asyncio.wait_for(all_active.wait(), 60)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            return Generated("first")
        active[0] += 1
        assert active[0] <= max_workers
        if active[0] == max_workers:
            all_active.set()
        await asyncio.sleep(0.001)
        active[0] -= 1
        return Generated("other")

    first, *others = chat_requests(30)
    expected = {first: "first"} | dict.fromkeys(others, "other")
    assert served(respond, [first, *others], max_workers) == expected


def test_no_request_waits_for_a_slow_worker_that_returned_from_its_backoff():
    others_done = asyncio.Event()

    async def respond(request):
        if request is first:
            await rate_limiter.backoff(0.02)
            await asyncio.wait_for(others_done.wait(), 60)
        else:
            await asyncio.sleep(0.005)  # they end together
            others.remove(request)
            if not others:
                others_done.set()
        return Generated("done")

    first, *others = chat_requests(60)
    assert len(served(respond, [first, *others], 5)) == 60


def test_results_come_before_the_error_that_ends_the_stream():
    async def respond(request):
        if request is last:
            await all_answered.wait()
            raise ValueError("broken")
        answered.append(request)
        if len(answered) == 9:
            all_answered.set()
        return Generated("done")

    *_, last = requests = chat_requests(10)
    all_answered, answered, found, pool = asyncio.Event(), [], [], Pool(respond, 10)
    with pytest.raises(ValueError, match="broken"):
        found.extend(answers_of(pool, requests))
    pool.loop.close()
    assert len(found) == len(answered) == 9


def test_a_stream_that_is_closed_has_cancelled_its_workers():
    cancelled = []

    async def respond(request):
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(request)
        return Generated("never")

    pool, queue = Pool(respond, 4), Queue(chat_requests(100))
    stream = pool.serve(queue)
    assert next(stream) is None
    pool.loop.run(asyncio.sleep(0))  # the workers have begun
    stream.close()
    assert len(cancelled) == 4
    assert not pool.loop.tasks
    pool.loop.close()


def test_requests_are_taken_in_advance_for_every_worker_and_no_more():
    async def respond(request):
        await asyncio.Event().wait()

    pool, queue = Pool(respond, 40), Queue(chat_requests(1000))
    stream = pool.serve(queue)
    for _ in range(100):
        assert next(stream) is None
        pool.loop.run(asyncio.sleep(0))
    assert 1000 - len(queue.requests) <= 40 + 40 + 32  # under way, pending, and the rest of the last batch
    assert 1000 - len(queue.requests) >= 80
    stream.close()
    pool.loop.close()
