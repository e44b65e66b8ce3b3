"""What several servers of one model must offer alike: a server is asked before it gets its first request of a kind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kshot.backends.server.connection import Connection
from kshot.backends.server.http_errors import UnreachableError
from kshot.backends.server.server_group import ServerGroup
from kshot.core.errors import BackendError

T = TypeVar("T")


class Agreement:
    """The servers that offer something in the same way as the first one that was asked."""

    def __init__(self, what: str) -> None:
        """Say what they must offer alike."""
        self._what = what
        self._first: Connection | None = None
        self._alike: set[Connection] = set()
        self._locks: dict[Connection, asyncio.Lock] = {}
        self._failures: dict[Connection, tuple[float, Exception]] = {}

    async def first_offer(self, group: ServerGroup, probe: Callable[[Connection], Awaitable[T | None]]) -> T | None:
        """Ask one server after the other what it offers, until one does; servers that are not there are left out."""
        missing: UnreachableError | None = None
        there = False
        for connection in group.connections:
            try:
                found = await probe(connection)
            except UnreachableError as exc:
                missing = exc
                continue
            there = True
            if found:
                self._first = connection
                self._alike = {connection}
                return found
        if missing is not None and not there:
            raise missing
        return None

    async def check(self, connection: Connection, is_alike: Callable[[], Awaitable[bool]]) -> None:
        """Refuse a server that offers something else than the first one; a check that fails is the failure of a try."""
        if connection in self._alike:
            return
        now = asyncio.get_running_loop().time
        began = now()
        async with self._locks.setdefault(connection, asyncio.Lock()):
            at, failure = self._failures.get(connection, (began - 1, None))
            if failure is not None and at >= began:  # the check that this call has waited for
                raise failure
            if connection in self._alike:
                return
            try:
                alike = await is_alike()
            except Exception as exc:
                self._failures[connection] = now(), exc
                raise
            if not alike:
                raise self._differs(connection)
            self._alike.add(connection)

    def _differs(self, connection: Connection) -> BackendError:
        other = "" if self._first is None else f" as {self._first.address.url} does"
        return BackendError(
            f"the servers differ: it does not give {self._what}{other}",
            where=connection.address.where,
            hint="Name servers that run the same software with the same model, or leave this one out.",
        )
