"""Where a server is: its URL, and the proxy on the way to it."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from kshot.backends.server.http_errors import shortened
from kshot.backends.server.keys import Account, Secret
from kshot.core.errors import UsageError
from kshot.core.specs import split_urls

_ENDPOINTS = ("/chat/completions", "/completions", "/messages")
_HOST = re.compile(r"[^\s/\\<>\"%]+")


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy on the way to a server: its address alone, the header that it gets, and what no message shows."""

    url: str
    authorization: Secret
    secrets: tuple[Secret, ...]

    @property
    def headers(self) -> dict[str, str]:
        """The headers for the proxy alone, to send them."""
        return {"Proxy-Authorization": self.authorization.reveal()} if self.authorization else {}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, how messages name it, what it is asked with, and how long and how large a reply may be."""

    url: str
    where: str
    account: Account
    timeout: float = 600.0
    max_reply: int = 64 * 10**6
    proxy: Proxy | None = None

    def redacted(self, text: str) -> str:
        """Return a message without any key, and without the password of the proxy."""
        hidden = self.proxy.secrets if self.proxy else ()
        return replace(self.account, secrets=(*self.account.secrets, *hidden)).redacted(text)


def model_and_urls(text: str, base_url: str | Sequence[str] | None, default_url: str) -> tuple[str, tuple[str, ...]]:
    """Return the model's name and the URLs of its servers, of ``MODEL``, ``MODEL@URL`` or ``MODEL@URL+URL``."""
    model, own = split_urls(text)
    given = (base_url,) if isinstance(base_url, str) else tuple(base_url or ())
    return model, normalised_urls(own or given or (default_url,))


def normalised_urls(urls: Iterable[str]) -> tuple[str, ...]:
    """Return the one spelling of each base URL; a server that is named twice is an error."""
    found = tuple(map(normalised_url, urls))
    for number, url in enumerate(found):
        if url in found[:number]:
            raise UsageError(f"--base-url names {url} twice", hint="Name each server once.")
    return found


def normalised_url(url: str) -> str:
    """Return the one spelling of a base URL: with its ``/v1``, without a slash or an endpoint at its end."""
    parts = _parts(url.strip())
    if parts is None:
        shown = "not a URL" if "@" in url or "?" in url else f"not a URL: {shortened(url)!r}"  # it may hold a password
        raise UsageError(f"--base-url is {shown}", hint="Write it as http://HOST:PORT/v1.")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            "--base-url holds more than an address",
            hint="Write it as http://HOST:PORT/v1. Keys are read from the environment only: see --api-key-env.",
        )
    path = parts.path.rstrip("/")
    for endpoint in _ENDPOINTS:
        path = path.removesuffix(endpoint)
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path.rstrip("/") or "/v1", "", ""))


def _parts(url: str) -> SplitResult | None:
    """Return the parts of an HTTP address, or None if it is none."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        valid = parts.port != 0 and _HOST.fullmatch(host) is not None and bool(host.encode("idna"))
    except ValueError:  # a port that is no number, an open bracket, a host with an empty label
        return None
    return parts if valid and parts.scheme in {"http", "https"} else None


def proxy_for(url: str) -> Proxy | None:
    """Return the proxy that the environment names for a server (``HTTPS_PROXY``, ``NO_PROXY``), or None.

    Only HTTPS goes through a proxy, which then sees no key. Plain HTTP goes straight to its server.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" or proxy_bypass(parts.hostname or ""):
        return None
    given = Secret(getproxies().get("https", "").strip())
    if not given:
        return None
    proxy = _proxy(given)
    if proxy is None:
        raise UsageError(
            "HTTPS_PROXY is not the address of an HTTP proxy",
            hint="Write it as http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, with / as %2F, @ as %40 and so on.",
        )
    return proxy


def _proxy(given: Secret) -> Proxy | None:
    """Read the address of a proxy, which may lack its ``http://``; None if it is malformed. It shows no password."""
    text = given.reveal()
    parts = _parts(text if "://" in text else f"http://{text}")
    if parts is None or parts.query or parts.fragment or "@" in parts.path:
        return None
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    try:
        token = b64encode(f"{user}:{password}".encode()).decode()
    except UnicodeEncodeError:
        return None
    if ":" in user:  # no server could tell where it ends
        return None
    authorization = Secret(f"Basic {token}" if user or password else "")
    url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return Proxy(url, authorization, (Secret(user), Secret(password), authorization))
