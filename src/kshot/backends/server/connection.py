"""HTTP to one server: one pool of connections, JSON out and in, keys from the environment."""

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

from kshot import __version__
from kshot.backends.server.http_errors import Answer, Refused, Transient, judged, shortened
from kshot.backends.server.rate_limiter import Gate, Limits
from kshot.core.errors import BackendError, MissingExtra, UsageError

T = TypeVar("T")
Body = dict[str, Any]

_encoded = json.JSONEncoder(separators=(",", ":")).encode
_OK = 200
_CONNECT = 30.0
_ENDPOINTS = ("/chat/completions", "/completions", "/messages")
_HEARD = ("Location", "Retry-After", "retry-after-ms")
_WORD, _LONG = 8, 16
"""A key shorter than the first, or of letters alone and shorter than the second, may be any word (EMPTY, ollama)."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is and how it is told who asks; the key itself is never part of a repr."""

    url: str
    where: str
    key_name: str
    headers: Mapping[str, str] = field(repr=False, default_factory=dict)
    timeout: float = 600.0
    key: str | None = field(repr=False, default=None)

    @property
    def secret(self) -> bool:
        """Whether there is a key to hide."""
        return bool(_spellings(self.key or ""))

    def hidden(self, text: str) -> str:
        """The text without the key, which a server may quote."""
        for spelling in _spellings(self.key or ""):
            text = text.replace(spelling, "…")
        return text


@lru_cache
def _spellings(key: str) -> tuple[str, ...]:
    if len(key) < _WORD or (key.isalpha() and len(key) < _LONG):
        return ()
    return tuple(dict.fromkeys([key, quote(key), quote(key, safe=""), json.dumps(key)[1:-1]]))


class Malformed(Exception):  # noqa: N818 - said of a reply
    """A reply that is whole but does not hold what was asked for."""


class Wire:
    """Calls to one server. Made in the loop that uses it; ``close`` gives the connections back."""

    def __init__(self, address: Address, limits: Limits) -> None:
        self._http = library()
        self._address = address
        self.gate = Gate(limits, address.where)
        self._session = self._http.ClientSession(
            connector=self._http.TCPConnector(limit=0, keepalive_timeout=30),
            timeout=self._http.ClientTimeout(total=address.timeout, sock_connect=min(_CONNECT, address.timeout)),
            headers={"User-Agent": f"kshot/{__version__}", "Content-Type": "application/json", **address.headers},
            cookie_jar=self._http.DummyCookieJar(),
            trust_env=bool(getproxies()),  # else every call without a key would look for a netrc
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def post(
        self,
        path: str,
        build: Callable[[], Body],
        read: Callable[[Any], T],
        *,
        adapt: Callable[[Body, Answer], bool] = lambda *_: False,
        tokens: float = 0.0,
        used: Callable[[T], float] = lambda _: 0.0,
        probing: bool = False,
    ) -> T:
        """Ask until there is an answer that ``read`` can read.

        ``build`` makes the body afresh for every try; ``adapt`` may learn from a refusal, and then it is asked again.
        """
        again = False
        while True:
            try:
                return await self.gate.through(
                    lambda: self._once(path, build(), read), tokens, used, probing=probing, again=again
                )
            except _Unhappy as exc:  # noqa: PERF203 - once or twice a run
                if not adapt(exc.body, exc.answer):
                    raise Refused(exc.failed) from None
                again = True

    async def _once(self, path: str, body: Body, read: Callable[[Any], T]) -> T:
        answer = await self._exchange(path, body)
        if answer.status != _OK:
            raise self._meaning(answer, body)
        try:
            return read(answer.body)
        except (Malformed, KeyError, IndexError, TypeError, ValueError, AttributeError) as exc:
            raise Transient(f"the server's reply cannot be read: {shortened(answer.text)} ({exc!r:.80})") from None

    def _meaning(self, answer: Answer, body: Body) -> Exception:
        place = self._address
        found = judged(answer, where=place.where, key_name=place.key_name, answered=self.gate.answered > 0)
        return _Unhappy(body, answer, found) if isinstance(found, Refused) else found

    async def _exchange(self, path: str, body: Body) -> Answer:
        http = self._http
        data = _encoded(body).encode()
        try:
            async with self._session.post(self._address.url + path, data=data, allow_redirects=False) as reply:
                raw = await reply.read()
                status, headers = reply.status, reply.headers
        except (
            http.ClientConnectorCertificateError,
            http.ClientConnectorSSLError,
            http.ClientConnectorDNSError,
            http.InvalidURL,
        ) as exc:
            raise self._unreachable(exc) from None
        except http.ClientConnectorError as exc:
            if not self.gate.answered:
                raise self._unreachable(exc) from None
            raise Transient(f"no connection: {self._told(exc)}") from None
        except asyncio.TimeoutError:
            raise Transient(f"no reply within {self._address.timeout:.0f} s") from None
        except (http.ClientError, OSError) as exc:
            raise Transient(f"the connection broke: {self._told(exc)}") from None
        told = {name: self._address.hidden(headers[name]) for name in _HEARD if name in headers}
        return _read(status, raw, told, self._address)

    def _told(self, exc: Exception) -> str:
        return shortened(self._address.hidden(str(exc) or type(exc).__name__))

    def _unreachable(self, exc: Exception) -> BackendError:
        return BackendError(
            f"the server cannot be reached: {self._told(exc)}",
            where=self._address.where,
            hint="Look at --base-url, and whether the server runs.",
        )


class _Unhappy(Refused):
    """A refusal that adapting the request may cure."""

    def __init__(self, body: Body, answer: Answer, refused: Refused) -> None:
        super().__init__(refused.failed)
        self.body, self.answer = body, answer


def _read(status: int, raw: bytes, headers: Mapping[str, str], address: Address) -> Answer:
    try:
        written = raw.decode(json.detect_encoding(raw), "surrogatepass")
        body, start = json.loads(written), written[:300]
        # JSON spells a text in many ways: look at what it says.
        if address.secret and ("\\" in written or address.hidden(written) != written):
            body = _without(body, address.hidden)
            start = json.dumps(body)[:300]
    except (ValueError, RecursionError):
        text = address.hidden(raw.decode("utf-8", "replace"))[:2000]
        if status == _OK:
            raise Transient(f"the reply is not whole JSON: {shortened(text)}") from None
        return Answer(status, None, headers, text)
    if status == _OK and isinstance(body, dict) and body.get("error"):
        code = body["error"].get("code") if isinstance(body["error"], dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 502  # noqa: PLR2004 - some say 200 and mean it not
    return Answer(status, body, headers, "" if status != _OK else start)


def _without(body: Any, hidden: Callable[[str], str]) -> Any:
    """The same JSON with every text in it hidden."""
    if isinstance(body, str):
        return hidden(body)
    if isinstance(body, list):
        return [_without(each, hidden) for each in body]
    if isinstance(body, dict):
        return {hidden(name): _without(each, hidden) for name, each in body.items()}
    return body


def library() -> Any:
    """The HTTP client, where it is installed."""
    try:
        import aiohttp
    except ImportError as exc:
        raise MissingExtra("aiohttp", "api", "a model behind a server") from exc
    return aiohttp


def located(spec: str, given: str | None, default: str) -> tuple[str, str]:
    """The model's name and the server's URL: ``MODEL``, or ``MODEL@URL`` for a server of its own."""
    model, at, url = spec.rpartition("@")
    if not at or not url.startswith(("http://", "https://")):
        model, url = spec, given or default
    return model, normalised(url)


_HOST = re.compile(r"[^\s/\\<>\"%]+")


def normalised(url: str) -> str:
    """One spelling of a base URL: with its ``/v1``, without a slash or an endpoint at its end."""
    try:
        parts = urlsplit(url.strip())
        host = parts.hostname or ""
        reachable = parts.port != 0 and _HOST.fullmatch(host) is not None and bool(host.encode("idna"))
    except ValueError:  # a port that is no number, a bracket left open, a host with an empty label
        reachable = False
    if not reachable or parts.scheme not in {"http", "https"}:
        shown = "no address" if "@" in url or "?" in url else repr(shortened(url))
        raise UsageError(f"--base-url is {shown}", hint="Write it as http://HOST:PORT/v1.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError("--base-url holds more than an address", hint="Keys are read from the environment alone.")
    path = parts.path.rstrip("/")
    for end in _ENDPOINTS:
        path = path.removesuffix(end)
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path.rstrip("/") or "/v1", "", ""))


def key_from(name: str, *, needed: bool, where: str) -> str | None:
    """The key that the environment holds; a missing one is an error where the server is known to want it."""
    found = os.environ.get(name, "").strip()
    if not found and needed:
        raise BackendError(f"{name} is not set", where=where, hint="Keys are read from the environment alone.")
    if not found.isascii() or not found.isprintable():
        raise BackendError(f"{name} holds characters that no key has", where=where)
    return found or None
