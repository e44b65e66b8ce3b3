"""HTTP to one server: a pool of connections, JSON in both directions, keys from the environment."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit
from urllib.request import getproxies
from weakref import WeakKeyDictionary, WeakValueDictionary

from kshot import __version__
from kshot.backends.server.http_errors import HttpReply, RequestFailedError, RetryableError, error_from, shortened
from kshot.backends.server.rate_limiter import RateLimiter, RequestLimits
from kshot.core.errors import BackendError, UsageError
from kshot.core.extras import import_package
from kshot.core.kill_points import reach

T = TypeVar("T")
Body = dict[str, Any]

_encoded = json.JSONEncoder(separators=(",", ":")).encode
_OK = 200
_CONNECT_SECONDS = 30.0
_ENDPOINTS = ("/chat/completions", "/completions", "/messages")
_USED_HEADERS = ("Location", "Retry-After", "retry-after-ms")
_MIN_KEY_CHARACTERS, _MIN_ALPHABETIC_KEY_CHARACTERS = 8, 16
"""A shorter key, or a shorter one of letters alone, may be any word (EMPTY, ollama) and is not removed from texts."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and the headers that carry the key; no repr shows the key."""

    url: str
    where: str
    key_name: str
    headers: Mapping[str, str] = field(repr=False, default_factory=dict)
    timeout: float = 600.0
    key: str | None = field(repr=False, default=None)

    @property
    def has_secret(self) -> bool:
        """Whether there is a key to hide."""
        return bool(_spellings(self.key or ""))

    def redacted(self, text: str) -> str:
        """Return the text without the key, which a server may quote."""
        for spelling in _spellings(self.key or ""):
            text = text.replace(spelling, "…")
        return text


@lru_cache
def _spellings(key: str) -> tuple[str, ...]:
    if len(key) < _MIN_KEY_CHARACTERS or (key.isalpha() and len(key) < _MIN_ALPHABETIC_KEY_CHARACTERS):
        return ()
    return tuple(dict.fromkeys([key, quote(key), quote(key, safe=""), json.dumps(key)[1:-1]]))


class MalformedReplyError(Exception):
    """A complete reply that does not hold what was asked for."""


_rate_limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[Any, RateLimiter]] = (
    WeakKeyDictionary()
)


def _shared_rate_limiter(address: Address, limits: RequestLimits) -> RateLimiter:
    """Return the rate limiter for this server, key and limits.

    A model and its judge there are asked at the same time, and must keep the limits together.
    """
    of_loop = _rate_limiters.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    found = of_loop.get((address.url, address.key, limits))
    if found is None:
        found = of_loop[address.url, address.key, limits] = RateLimiter(limits, address.where)
    return found


class Connection:
    """The connection to one server, made in the event loop that uses it."""

    def __init__(self, address: Address, limits: RequestLimits) -> None:
        self._http = load_aiohttp()
        self._address = address
        self.probe_lock = asyncio.Lock()
        """Held by the code that finds out what the server offers, so that it asks once."""
        self._rate_limiter = _shared_rate_limiter(address, limits)
        self._session = self._http.ClientSession(
            connector=self._http.TCPConnector(limit=0, keepalive_timeout=30),
            timeout=self._http.ClientTimeout(
                total=address.timeout, sock_connect=min(_CONNECT_SECONDS, address.timeout)
            ),
            headers={"User-Agent": f"kshot/{__version__}", "Content-Type": "application/json", **address.headers},
            cookie_jar=self._http.DummyCookieJar(),
            trust_env=bool(getproxies()),  # otherwise every call without a key would look for a netrc file
        )

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return bool(self._session.closed)

    async def close(self) -> None:
        """Close the sockets."""
        await self._session.close()

    async def post(
        self,
        path: str,
        build: Callable[[], Body],
        read: Callable[[Any], T],
        *,
        adapt: Callable[[Body, HttpReply], bool] = lambda *_: False,
        estimated_tokens: float = 0.0,
        used_tokens: Callable[[T], float] = lambda _: 0.0,
        probing: bool = False,
    ) -> T:
        """Send a request until there is a reply that ``read`` can read.

        ``build`` makes the body for every try. ``adapt`` may change what ``build`` makes after the server has refused a
        body; if it returns True, the request is sent again. For ``probing`` see ``RateLimiter.run``.
        """
        again = False
        while True:
            try:
                return await self._rate_limiter.run(
                    lambda: self._try_once(path, build(), read),
                    estimated_tokens,
                    used_tokens,
                    probing=probing,
                    again=again,
                )
            except _RefusedBodyError as exc:  # noqa: PERF203 - this happens once or twice in a run
                if not adapt(exc.body, exc.reply):
                    raise RequestFailedError(exc.failed) from None
                again = True

    async def _try_once(self, path: str, body: Body, read: Callable[[Any], T]) -> T:
        reply = await self._exchange(path, body)
        if reply.status != _OK:
            raise self._error(reply, body)
        try:
            return read(reply.body)
        except (MalformedReplyError, KeyError, IndexError, TypeError, ValueError, AttributeError) as exc:
            message = f"the server's reply cannot be read: {shortened(reply.text)} ({exc!r:.80})"
            raise RetryableError(message) from None

    def _error(self, reply: HttpReply, body: Body) -> Exception:
        address = self._address
        answered = self._rate_limiter.answered > 0
        error = error_from(reply, where=address.where, key_name=address.key_name, answered=answered)
        return _RefusedBodyError(body, reply, error) if isinstance(error, RequestFailedError) else error

    async def _exchange(self, path: str, body: Body) -> HttpReply:
        http = self._http
        data = _encoded(body).encode()
        reach("server.before_request")
        try:
            async with self._session.post(self._address.url + path, data=data, allow_redirects=False) as reply:
                raw = await reply.read()
                reach("server.reply_read")
                status, headers = reply.status, reply.headers
        except (
            http.ClientConnectorCertificateError,
            http.ClientConnectorSSLError,
            http.ClientConnectorDNSError,
            http.InvalidURL,
        ) as exc:
            raise self._unreachable(exc) from None
        except http.ClientConnectorError as exc:
            if not self._rate_limiter.answered:
                raise self._unreachable(exc) from None
            raise RetryableError(f"no connection: {self._message(exc)}") from None
        except asyncio.TimeoutError:
            raise RetryableError(f"no reply within {self._address.timeout:.0f} s") from None
        except (http.ClientError, OSError) as exc:
            raise RetryableError(f"the connection broke: {self._message(exc)}") from None
        used = {name: self._address.redacted(headers[name]) for name in _USED_HEADERS if name in headers}
        return _parsed_reply(status, raw, used, self._address)

    def _message(self, exc: Exception) -> str:
        return shortened(self._address.redacted(str(exc) or type(exc).__name__))

    def _unreachable(self, exc: Exception) -> BackendError:
        return BackendError(
            f"the server cannot be reached: {self._message(exc)}",
            where=self._address.where,
            hint="Check --base-url, and whether the server runs.",
        )


class _RefusedBodyError(RequestFailedError):
    """The server refused a body; another body for the same request may be accepted."""

    def __init__(self, body: Body, reply: HttpReply, error: RequestFailedError) -> None:
        super().__init__(error.failed)
        self.body, self.reply = body, reply


def _parsed_reply(status: int, raw: bytes, headers: Mapping[str, str], address: Address) -> HttpReply:
    try:
        written = raw.decode(json.detect_encoding(raw), "surrogatepass")
        body, start = json.loads(written), written[:300]
        # JSON can spell a text in many ways, so the key is searched for in the parsed texts.
        if address.has_secret and ("\\" in written or address.redacted(written) != written):
            body = _redacted_json(body, address.redacted)
            start = json.dumps(body)[:300]
    except (ValueError, RecursionError):
        text = address.redacted(raw.decode("utf-8", "replace"))[:2000]
        if status == _OK:
            raise RetryableError(f"the reply is not complete JSON: {shortened(text)}") from None
        return HttpReply(status, None, headers, text)
    if status == _OK and isinstance(body, dict) and body.get("error"):  # some servers send errors with status 200
        code = body["error"].get("code") if isinstance(body["error"], dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 502  # noqa: PLR2004 - the HTTP errors
    return HttpReply(status, body, headers, "" if status != _OK else start)


def _redacted_json(body: Any, redacted: Callable[[str], str]) -> Any:
    """Return the same JSON with every text in it redacted."""
    if isinstance(body, str):
        return redacted(body)
    if isinstance(body, list):
        return [_redacted_json(item, redacted) for item in body]
    if isinstance(body, dict):
        return {redacted(name): _redacted_json(value, redacted) for name, value in body.items()}
    return body


def load_aiohttp() -> Any:
    """Import the HTTP library."""
    return import_package("a model behind a server", "aiohttp")


def model_and_url(spec: str, base_url: str | None, default_url: str) -> tuple[str, str]:
    """Return the model's name and the server's URL of ``MODEL`` or ``MODEL@URL``."""
    model, at, url = spec.rpartition("@")
    if not at or not url.startswith(("http://", "https://")):
        model, url = spec, base_url or default_url
    return model, normalised_url(url)


_HOST = re.compile(r"[^\s/\\<>\"%]+")


def normalised_url(url: str) -> str:
    """Return the one spelling of a base URL: with its ``/v1``, without a slash or an endpoint at its end."""
    try:
        parts = urlsplit(url.strip())
        host = parts.hostname or ""
        valid = parts.port != 0 and _HOST.fullmatch(host) is not None and bool(host.encode("idna"))
    except ValueError:  # a port that is no number, an open bracket, a host with an empty label
        valid = False
    if not valid or parts.scheme not in {"http", "https"}:
        shown = "not a URL" if "@" in url or "?" in url else f"not a URL: {shortened(url)!r}"  # it may hold a password
        raise UsageError(f"--base-url is {shown}", hint="Write it as http://HOST:PORT/v1.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            "--base-url holds more than an address",
            hint="Write it as http://HOST:PORT/v1. Keys are read from the environment only.",
        )
    path = parts.path.rstrip("/")
    for endpoint in _ENDPOINTS:
        path = path.removesuffix(endpoint)
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path.rstrip("/") or "/v1", "", ""))


def key_from_environment(name: str, *, needed: bool, where: str) -> str | None:
    """Return the key in an environment variable; it is an error if a needed one is missing."""
    key = os.environ.get(name, "").strip()
    if not key and needed:
        raise BackendError(f"{name} is not set", where=where, hint="Keys are read from the environment only.")
    if not key.isascii() or not key.isprintable():
        raise BackendError(f"{name} holds characters that no key has", where=where, hint="Set it again.")
    return key or None
