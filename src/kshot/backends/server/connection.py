"""HTTP to one server: a pool of connections, and JSON in both directions."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from kshot import __version__
from kshot.backends.server.http_errors import (
    ACCEPT_ENCODING,
    MAX_ERROR_BYTES,
    BrokenError,
    HttpReply,
    RequestFailedError,
    RetryableError,
    TooLargeError,
    UnreachableError,
    UnreadableError,
    UnsentError,
    error_from,
    parsed,
    read_limited,
    shortened,
    unpacked,
)
from kshot.backends.server.keys import Account, Address
from kshot.backends.server.rate_limiter import RateLimiter, RequestLimits, ServerLoad, told_absences
from kshot.core.budget import Tries
from kshot.core.extras import import_package
from kshot.core.kill_points import reach
from kshot.core.records import Failed, Usage

T = TypeVar("T")
Body = dict[str, Any]

_encoded = json.JSONEncoder(separators=(",", ":")).encode
_OK = 200
_CONNECT_SECONDS = 30.0
_REST_SECONDS = 0.025
"""How long a connection rests before it goes back to the pool."""

_HEADERS = {
    "User-Agent": f"kshot/{__version__}",
    "Accept-Encoding": ACCEPT_ENCODING,
}
_USED_HEADERS = ("Content-Encoding", "Location", "Retry-After", "retry-after-ms")


class MalformedReplyError(Exception):
    """A complete reply that does not hold what was asked for."""


class Connection:
    """The connection to one server, made in the event loop that uses it."""

    def __init__(
        self, address: Address, load: ServerLoad, tries: Tries, inspect: Callable[[Any], Usage | None] = lambda _: None
    ) -> None:
        """Take the address and the load of the server; ``inspect`` returns the token counts of a reply."""
        self._http = load_aiohttp()
        self.address, self.load = address, load
        self.answered = 0
        """The requests that were answered through this connection."""
        self._tries, self._inspect = tries, inspect
        self._session = self._http.ClientSession(
            connector=_connection_pool(self._http),
            timeout=self._http.ClientTimeout(
                total=address.timeout, sock_connect=min(_CONNECT_SECONDS, address.timeout)
            ),
            cookie_jar=self._http.DummyCookieJar(),
            auto_decompress=False,  # it has no limit; see ``unpacked``
            trust_env=False,  # it would send passwords of a netrc file
        )

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return bool(self._session.closed)

    async def close(self) -> None:
        """Close the sockets."""
        await self._session.close()

    async def post_once(
        self, path: str, body: Body, read: Callable[[Any], T], *, again: bool = False, probe: bool = False
    ) -> T:
        """Send a body once; whatever comes but a reply that ``read`` can read is an error. ``again``: it was sent.

        ``probe``: it is sent to find out what the server offers.
        """
        if not self._tries.may_send():
            raise UnsentError
        self._tries.retries += again
        usage: Usage | None = None
        try:
            reply = await self._exchange(path, body)
            usage = self._inspect(reply.body) if reply.status == _OK else None
            result = self._result(reply, body, read)
        except Exception:
            self._tries.ended(usage, "probe" if probe else "failed")
            raise
        self._tries.ended(usage, "probe" if probe else "answered")
        self.answered += 1
        return result

    def _result(self, reply: HttpReply, body: Body, read: Callable[[Any], T]) -> T:
        if reply.status != _OK:
            raise self._error(reply, body)
        try:
            return read(reply.body)
        except (MalformedReplyError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as exc:
            reason = self.address.account.redacted(repr(exc))[:80]
            message = f"the server's reply cannot be read: {shortened(reply.text)} ({reason})"
            raise RetryableError(message, complete=True) from None

    def _error(self, reply: HttpReply, body: Body) -> Exception:
        address = self.address
        answered = self.load.answered > 0
        error = error_from(reply, where=address.where, key_hint=address.account.hint, answered=answered)
        return RefusedBodyError(body, reply, error) if isinstance(error, RequestFailedError) else error

    async def _exchange(self, path: str, body: Body) -> HttpReply:
        reach("server.before_request")
        reply = await self._sent(path, _encoded(body).encode())
        reach("server.reply_read")
        if isinstance(reply, Exception):
            raise reply  # here, where no frame of the HTTP library holds the key
        return reply

    async def _sent(self, path: str, data: bytes) -> HttpReply | Exception:
        """Send a body, and return the reply, or the error that came instead of it."""
        http, address = self._http, self.address
        try:
            async with self._session.post(address.url + path, data=data, **request_arguments(address)) as reply:
                return await self._received(reply)
        except (http.ClientError, asyncio.TimeoutError, OSError, ValueError) as exc:
            return transport_error(exc, http, address, was_there=self.load.answered > 0)

    async def _received(self, reply: Any) -> HttpReply | Exception:
        """Read a reply within the limits. What is left of a larger one is never read: the connection is closed."""
        address, status = self.address, int(reply.status)
        limit = address.max_reply if status == _OK else MAX_ERROR_BYTES
        raw, more = await read_limited(reply.content.iter_any(), limit)
        if more:
            reply.close()
        used = {name: address.account.redacted(reply.headers[name]) for name in _USED_HEADERS if name in reply.headers}
        try:
            # These two do not wait, so that only one reply at a time is held decompressed.
            whole, too_long = (
                (b"", True) if more and status == _OK else unpacked(raw, used.get("Content-Encoding", ""), limit)
            )
            if too_long and status == _OK:
                raise TooLargeError(f"it is larger than {limit:,} bytes (--max-reply)")  # noqa: TRY301 - as below
            return _parsed_reply(status, whole, used, address.account)
        except BrokenError as exc:
            if status != _OK:
                return HttpReply(status, None, used)
            return RetryableError(f"the server's reply is broken: {exc}")
        except TooLargeError as exc:
            return RequestFailedError(Failed("reply_too_large", f"the server's reply is too large: {exc}"))
        except UnreadableError as exc:
            return RequestFailedError(Failed("bad_reply", f"the server's reply cannot be read: {exc}"))


def transport_error(exc: Exception, http: Any, address: Address, *, was_there: bool) -> Exception:
    """Return what an error of the HTTP library means (ValueError: headers that cannot be parsed).

    ``was_there``: the server has answered other requests, so that it may come back.
    """
    said = shortened(address.redacted(str(exc) or type(exc).__name__))
    for_good = (
        http.ClientConnectorCertificateError,
        http.ClientConnectorSSLError,
        http.ClientConnectorDNSError,
        http.InvalidURL,
    )
    no_connection = isinstance(exc, http.ClientConnectorError)
    if isinstance(exc, for_good) or (no_connection and not was_there):
        hint = "Check --base-url, and whether the server runs."
        return UnreachableError(f"the server cannot be reached: {said}", where=address.where, hint=hint)
    if isinstance(exc, asyncio.TimeoutError) and not no_connection:
        return RetryableError(f"no reply within {address.timeout:.0f} s")
    return RetryableError(f"{'no connection' if no_connection else 'the connection broke'}: {said}")


class RefusedBodyError(RequestFailedError):
    """The server refused a body; another body for the same request may be accepted."""

    def __init__(self, body: Body, reply: HttpReply, error: RequestFailedError) -> None:
        super().__init__(error.failed, error.status)
        self.body, self.reply = body, reply


def request_arguments(address: Address, content_type: str = "application/json") -> dict[str, Any]:
    """Return what a request is sent with. Headers of the session would go to the proxy too, a redirect take them along.

    No variable of a frame that an error can pass holds it.
    """
    headers = (
        _HEADERS | {"Content-Type": content_type} | {name: value.reveal() for name, value in address.account.headers}
    )
    options = {"headers": headers, "allow_redirects": False}
    proxy = address.proxy
    return options | {"proxy": proxy.url, "proxy_headers": proxy.headers} if proxy else options


def _parsed_reply(status: int, raw: bytes, headers: Mapping[str, str], account: Account) -> HttpReply | Exception:
    try:
        body, written = parsed(raw)
    except (ValueError, UnreadableError, TooLargeError) as exc:
        text = account.redacted(raw[:MAX_ERROR_BYTES].decode("utf-8", "replace"))[:2000]
        if status != _OK:
            return HttpReply(status, None, headers, text)
        if not isinstance(exc, ValueError):
            raise
        return RetryableError(f"the reply is not complete JSON: {shortened(text)}")
    start = written[:300]
    # JSON can spell a text in many ways, so the key is searched for in the parsed texts.
    if account.secrets and ("\\" in written or account.redacted(written) != written):
        body = account.redacted_json(body)
        start = json.dumps(body)[:300]
    if status == _OK and isinstance(body, dict) and body.get("error"):  # some servers send errors with status 200
        code = body["error"].get("code") if isinstance(body["error"], dict) else None
        status = code if type(code) is int and 400 <= code < 600 else 502  # noqa: PLR2004 - the HTTP errors
    return HttpReply(status, body, headers, "" if status != _OK else start)


def _connection_pool(http: Any) -> Any:
    """Return a pool that never uses a connection again on which the server has sent something that nobody asked for.

    A reply that is sent twice would otherwise be taken for the answer to the next request. The second one may come a
    little later, so a connection rests before it goes back to the pool. Until then it counts as in use: the pool closes
    it when it is itself closed.
    """

    class CleanConnections(http.TCPConnector):  # type: ignore[misc]  # the package is imported when it is used
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._resting: deque[tuple[float, Any, Any]] = deque()

        async def connect(self, *args: Any, **options: Any) -> Any:
            connection = await super().connect(*args, **options)
            while connection.protocol.should_close:
                connection.close()
                connection = await super().connect(*args, **options)
            return connection

        def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
            if should_close or protocol.should_close:
                super()._release(key, protocol, should_close=True)
                return
            self._resting.append((self._loop.time() + _REST_SECONDS, key, protocol))
            if len(self._resting) == 1:
                self._loop.call_later(_REST_SECONDS, self._end_rests)

        def _end_rests(self) -> None:
            """Give back what has rested. One timer serves all of them."""
            while self._resting and self._resting[0][0] <= self._loop.time():
                _, key, protocol = self._resting.popleft()
                super()._release(key, protocol)
            if self._resting:
                self._loop.call_at(self._resting[0][0], self._end_rests)

    return CleanConnections(limit=0, keepalive_timeout=30)


def load_aiohttp() -> Any:
    """Import the HTTP library."""
    return import_package("a model behind a server", "aiohttp")


# ---- the servers of one model, one or several: each try of a request goes to one of them ----

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
