"""The workers of one queue: never more than allowed, and none idle while requests are pending."""

import asyncio

import pytest

from kshot.backends.server import rate_limiter
from kshot.backends.server.event_loop import EventLoopHandle
from kshot.backends.server.workers import WorkerPool
from kshot.core.records import Generated
from tests.backends.server.clients import chat_requests
from tests.tiny_models import Queue


@pytest.mark.parametrize("max_workers", [1, 2, 7])
def test_another_worker_replaces_one_that_backs_off(max_workers):
    active, all_active = [0], asyncio.Event()

    async def respond(request):
        if request is first:
            waiting = asyncio.create_task(rate_limiter.backoff(5))
            await asyncio.wait_for(all_active.wait(), 5)
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
            await asyncio.wait_for(others_done.wait(), 5)
        else:
            await asyncio.sleep(0.005)  # they end together
            others.remove(request)
            if not others:
                others_done.set()
        return Generated("done")

    first, *others = chat_requests(60)
    assert len(served(respond, [first, *others], 5)) == 60


def served(respond, requests, max_workers):
    loop = EventLoopHandle()
    pairs = WorkerPool(loop, respond, max_workers).serve(Queue(requests))
    texts = [(request, response.text) for request, response in pairs]
    assert len(texts) == len(requests)
    loop.close()
    return dict(texts)
