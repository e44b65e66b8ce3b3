"""Calls to one server within limits, and after passing errors, in virtual time: nothing depends on the machine."""

import asyncio
from itertools import pairwise

import pytest

from kshot.backends.server.http_errors import RequestFailedError, RetryableError, UnsentError
from kshot.backends.server.rate_limiter import MAX_TRIES, RateLimiter, RequestLimits
from kshot.core.errors import BackendError
from tests.backends.server.virtual_time import run


class VirtualServer:
    """Answers after 10 ms, or raises what ``fault`` returns for the time and the number of the call."""

    def __init__(self, fault=lambda now, number: None):
        self.fault = fault
        self.times, self.answered = [], []
        self.running = self.max_running = 0

    async def call(self, _server=None):
        loop = asyncio.get_running_loop()
        number = len(self.times)
        self.times.append(loop.time())
        self.running += 1
        self.max_running = max(self.max_running, self.running)
        await asyncio.sleep(0.01)
        self.running -= 1
        error = self.fault(self.times[number], number)
        if error is not None:
            raise error
        self.answered.append(self.times[number])
        return "answer"


def ask(server, count, *, tokens=1.0, **limits):
    """Send this many calls, as many at one time as the limits allow; return the results and the virtual seconds."""

    async def work():
        limiter = RateLimiter(RequestLimits(**limits), "server")
        calls = (limiter.run(server.call, tokens, lambda _: tokens) for _ in range(count))
        return await asyncio.gather(*calls, return_exceptions=True)

    return run(work())


def test_a_429_causes_no_flood_of_retries():
    def fault(now, number):
        return RetryableError("later", retry_after=2.0, overloaded=True, rate_limited=True) if now < 2.4 else None

    server = VirtualServer(fault)
    found, _ = ask(server, 500, max_concurrency=100)
    assert found == ["answer"] * 500
    first = [at for at in server.times if at < 0.5]
    assert len(first) <= 100  # those that ran at first
    early = [at for at in server.times if 0.5 <= at < 3.9]
    assert len(early) == 1  # then one alone, after the pause that the server asked for
    assert len(server.times) - 500 <= 101


def test_without_retry_after_the_pauses_grow():
    server = VirtualServer(lambda now, number: RetryableError("no", overloaded=True) if now < 20 else None)
    found, _ = ask(server, 100, max_concurrency=50)
    assert found == ["answer"] * 100
    alone = [at for at in server.times if 0.1 < at < 20]
    gaps = [later - earlier for earlier, later in pairwise(alone)]
    assert len(alone) < 30
    assert max(gaps) > 2.0 > gaps[0]


def test_requests_per_minute():
    server = VirtualServer()
    found, seconds = ask(server, 50, rpm=20)
    assert found == ["answer"] * 50
    for start in server.times:
        assert sum(start <= at < start + 60 for at in server.times) <= 20
    assert 120 <= seconds < 125  # 20 now, 20 after a minute, 10 after two


def test_tokens_per_minute():
    server = VirtualServer()
    found, seconds = ask(server, 25, tokens=100.0, tpm=1000)
    assert found == ["answer"] * 25
    for start in server.times:
        assert sum(start <= at < start + 60 for at in server.times) <= 10
    assert 120 <= seconds < 125


@pytest.mark.parametrize("allowed", [1, 3, 100])
def test_as_many_run_at_one_time_as_are_allowed(allowed):
    server = VirtualServer()
    found, _ = ask(server, 800, max_concurrency=allowed)
    assert found == ["answer"] * 800
    assert server.max_running == allowed


def test_a_request_that_fails_while_others_are_answered_is_given_up():
    server = VirtualServer()

    async def work():
        limiter = RateLimiter(RequestLimits(max_concurrency=4), "server")

        async def failing(_server):
            await asyncio.sleep(0.01)
            tries.append(asyncio.get_running_loop().time())
            raise RetryableError("bad")

        async def others():
            while not given_up.done():
                await limiter.run(server.call, 1, lambda _: 1)
                await asyncio.sleep(0.05)

        tries = []
        given_up = asyncio.ensure_future(limiter.run(failing, 1, lambda _: 1))
        await asyncio.gather(others(), given_up, return_exceptions=True)
        return given_up.exception(), tries

    (error, tries), _ = run(work())
    assert isinstance(error, RequestFailedError)
    assert error.failed.retryable
    assert len(tries) == MAX_TRIES


def test_a_server_that_never_answers_stops_the_run_after_the_patience():
    server = VirtualServer(lambda now, number: RetryableError("no", overloaded=True))
    found, seconds = ask(server, 30, patience=100.0)
    assert all(isinstance(each, BackendError) for each in found)
    assert "no answer for" in str(found[0])
    assert seconds > 100


def test_a_retry_after_beyond_the_patience_stops_the_run_at_once():
    server = VirtualServer(lambda now, number: RetryableError("daily limit", retry_after=86400.0, rate_limited=True))
    found, seconds = ask(server, 3, patience=100.0)
    assert "asks to wait for 86400 s" in str(found[0])
    assert seconds < 1


def test_a_request_that_is_not_sent_is_no_answer():
    """The limit of a run may forbid a try; a server that never answered is still told to have given none."""

    async def work():
        limiter = RateLimiter(RequestLimits(patience=100.0), "server")

        async def unsent(_server):
            raise UnsentError

        with pytest.raises(UnsentError):
            await limiter.run(unsent, 1, lambda _: 1)
        await asyncio.sleep(90)
        with pytest.raises(RequestFailedError) as found:
            await limiter.run(unsent, 1, lambda _: 1)
        server = VirtualServer(lambda now, number: RetryableError("no", overloaded=True))
        with pytest.raises(BackendError, match="no answer for") as stopped:
            await limiter.run(server.call, 1, lambda _: 1)
        return limiter.answered, found.value.failed.kind, str(stopped.value)

    (answered, kind, message), seconds = run(work())
    assert (answered, kind) == (0, "limit")
    assert float(message.partition("no answer for ")[2].partition(" s")[0]) == pytest.approx(seconds, abs=1)
