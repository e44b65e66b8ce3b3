"""Those at work on a server's requests: never more than may be, none idle while there is something to do."""

import asyncio

import pytest
from tests.backends.servers.test_faults import asking

from kshot.backends.server import rate_limiter as gate
from kshot.backends.server.event_loop import Link
from kshot.backends.server.workers import Crew
from kshot.core.records import Generated
from tests.tiny_models import Queue


@pytest.mark.parametrize("most", [1, 2, 7])
def test_others_work_in_the_place_of_one_that_rests(most):
    inside, together = [0], asyncio.Event()

    async def answer(request):
        if request is first:
            resting = asyncio.create_task(gate.rest(5))
            await asyncio.wait_for(together.wait(), 5)
            resting.cancel()
            await asyncio.gather(resting, return_exceptions=True)
            return Generated("first")
        inside[0] += 1
        assert inside[0] <= most
        if inside[0] == most:
            together.set()
        await asyncio.sleep(0.001)
        inside[0] -= 1
        return Generated("other")

    first, *others = asking(30)
    assert served(answer, [first, *others], most) == {first: "first"} | dict.fromkeys(others, "other")


def test_nobody_waits_for_a_slow_one_that_came_back_from_resting():
    left = asyncio.Event()

    async def answer(request):
        if request is first:
            await gate.rest(0.02)
            await asyncio.wait_for(left.wait(), 5)
        else:
            await asyncio.sleep(0.005)  # they end together
            others.remove(request)
            if not others:
                left.set()
        return Generated("done")

    first, *others = asking(60)
    assert len(served(answer, [first, *others], 5)) == 60


def served(answer, requests, most):
    made = Link()
    found = [(request, reply.text) for request, reply in Crew(made, answer, most).pairs(Queue(requests))]
    assert len(found) == len(requests)
    made.close()
    return dict(found)
