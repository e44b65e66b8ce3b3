"""The servers of one model, one or several: each try of a request goes to one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from kshot.backends.server.address import Address
from kshot.backends.server.connection import Body, Connection, RefusedBodyError
from kshot.backends.server.http_errors import HttpReply, RequestFailedError
from kshot.backends.server.rate_limiter import RateLimiter
from kshot.backends.server.server_load import RequestLimits, ServerLoad, told_absences
from kshot.core.budget import Tries
from kshot.core.records import Usage

T = TypeVar("T")

_rate_limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[Any, RateLimiter]] = (
    WeakKeyDictionary()
)


def shared_rate_limiter(addresses: Sequence[Address], limits: RequestLimits, where: str) -> RateLimiter:
    """Return the rate limiter for these servers, accounts and limits.

    A model and its judge there are asked at the same time, and must keep the limits together.
    """
    of_loop = _rate_limiters.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    key = (tuple((address.url, address.account.headers) for address in addresses), limits)
    found = of_loop.get(key)
    if found is None:
        found = of_loop[key] = RateLimiter(limits, where, len(addresses))
    return found


class ServerGroup:
    """The connections to the servers of one model, made in the event loop that uses them."""

    def __init__(
        self,
        addresses: Sequence[Address],
        limits: RequestLimits,
        tries: Tries,
        inspectors: Sequence[Callable[[Any], Usage | None]],
        where: str,
    ) -> None:
        """Take the addresses and the limits of each; of each server, an inspector gets every reply that is JSON."""
        self.probe_lock = asyncio.Lock()
        """Held by the code that finds out what the servers offer, so that it asks once."""
        self._rate_limiter = shared_rate_limiter(addresses, limits, where)
        places = zip(addresses, self._rate_limiter.servers, inspectors, strict=True)
        self.connections = tuple(Connection(address, load, tries, inspect) for address, load, inspect in places)
        self._of_load: dict[ServerLoad, Connection] = {each.load: each for each in self.connections}

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return any(each.closed for each in self.connections)

    async def close(self) -> None:
        """Close the sockets."""
        for each in self.connections:
            await each.close()

    @property
    def notes(self) -> list[str]:
        """Which of several servers answered how many requests, and which were left out."""
        if len(self.connections) == 1:
            return []
        counts = ", ".join(f"{each.address.url} {each.answered:,}" for each in self.connections)
        absent = (each for each in self.connections if each.load.absences)
        return [
            f"requests answered: {counts}",
            *(told_absences(each.address.url, each.load.absences) for each in absent),
        ]

    async def post(
        self,
        path: str,
        build: Callable[[], Body],
        read: Callable[[Any], T],
        *,
        adapt: Callable[[Body, HttpReply], bool] = lambda *_: False,
        estimated_tokens: float = 0.0,
        used_tokens: Callable[[T], float] = lambda _: 0.0,
        probed: Connection | None = None,
        check: Callable[[Connection], Awaitable[None]] | None = None,
    ) -> T:
        """Send a request until there is a reply that ``read`` can read.

        ``build`` makes the body for every try. ``adapt`` may change what ``build`` makes after a server has refused a
        body; if it returns True, the request is sent again. ``probed``: only this server is asked, to find out what it
        offers; see ``RateLimiter.run``. ``check`` is called before a try, and may refuse the server that it goes to.
        """
        again = sent = False

        async def try_once(load: ServerLoad) -> T:
            nonlocal sent
            connection = self._of_load[load]
            if check is not None and len(self.connections) > 1:
                await check(connection)
            body, is_again = build(), sent
            sent = True
            return await connection.post_once(path, body, read, again=is_again, probe=probed is not None)

        while True:
            try:
                return await self._rate_limiter.run(
                    try_once,
                    estimated_tokens,
                    used_tokens,
                    probing=probed is not None,
                    again=again,
                    only=None if probed is None else probed.load,
                )
            except RefusedBodyError as exc:  # noqa: PERF203 - this happens once or twice in a run
                if not adapt(exc.body, exc.reply):
                    raise RequestFailedError(exc.failed, exc.status) from None
                again = True
