"""The pool of connections: those that rest are free for others while a new one is being opened."""

import asyncio

import aiohttp

from kshot.backends.server.connection import _connection_pool
from tests.fake_server import FakeServer, echo

BODY = {"model": "m", "messages": [{"role": "user", "content": "1"}]}


async def posts_beside_a_handshake(url):
    """Post once, then beside a request whose connection never opens; return whether that needs no new connection."""
    pool = _connection_pool(aiohttp)
    handshakes: asyncio.Queue[None] = asyncio.Queue()

    async def never(*arguments, **options):
        handshakes.put_nowait(None)
        await asyncio.Event().wait()

    async with aiohttp.ClientSession(connector=pool) as session:

        async def post():
            async with session.post(f"{url}/v1/chat/completions", json=BODY) as reply:
                await reply.read()
                return reply.status

        assert await post() == 200
        pool._create_connection = never
        waiting = asyncio.create_task(post())  # the one connection rests, so this opens another
        await handshakes.get()
        await asyncio.sleep(0.1)  # the timer of the rest, which is due before, has fired by then
        second = asyncio.create_task(post())
        third = asyncio.create_task(handshakes.get())
        done, _ = await asyncio.wait({second, third}, return_when=asyncio.FIRST_COMPLETED)
        for task in (waiting, second, third):
            task.cancel()
        await asyncio.gather(waiting, second, third, return_exceptions=True)
        return done == {second} and second.result() == 200


def test_a_new_connection_does_not_hold_those_that_rest():
    with FakeServer(echo) as server:
        assert asyncio.run(posts_beside_a_handshake(server.url))


def test_a_pool_that_is_closed_closes_connections_that_rest():
    async def closed(url):
        pool = _connection_pool(aiohttp)
        async with aiohttp.ClientSession(connector=pool) as session:
            async with session.post(f"{url}/v1/chat/completions", json=BODY) as reply:
                await reply.read()
            ((_, _, protocol),) = pool._resting
            assert protocol.is_connected()
        return not protocol.is_connected()

    with FakeServer(echo) as server:
        assert asyncio.run(closed(server.url))
