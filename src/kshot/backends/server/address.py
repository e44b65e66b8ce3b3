"""Where a server is: its URL, and the proxy on the way to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from kshot.backends.server.http_errors import shortened
from kshot.backends.server.keys import Account
from kshot.core.errors import UsageError
from kshot.core.specs import Spec

_ENDPOINTS = ("/chat/completions", "/completions", "/messages")
_OWN_URL = re.compile(r"@(?=https?://)", re.IGNORECASE)
_HOST = re.compile(r"[^\s/\\<>\"%]+")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, how messages name it, what it is asked with, and how long and how large a reply may be."""

    url: str
    where: str
    account: Account
    timeout: float = 600.0
    max_reply: int = 64 * 10**6


def model_and_url(text: str, base_url: str | None, default_url: str) -> tuple[str, str]:
    """Return the model's name and the server's URL of ``MODEL`` or ``MODEL@URL``."""
    found = _OWN_URL.search(text)
    model, url = (text[: found.start()], text[found.end() :]) if found else (text, base_url or default_url)
    return model, normalised_url(url)


def own_url(spec: Spec) -> str | None:
    """Return where a spec says that its server is: no key or header of another server may go there."""
    found = _OWN_URL.search(spec.argument) if spec.file is None else None
    return spec.argument[found.end() :] if found else spec.options.get("base_url")


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
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            "--base-url holds more than an address",
            hint="Write it as http://HOST:PORT/v1. Keys are read from the environment only: see --api-key-env.",
        )
    path = parts.path.rstrip("/")
    for endpoint in _ENDPOINTS:
        path = path.removesuffix(endpoint)
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path.rstrip("/") or "/v1", "", ""))


def proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for a server (``HTTPS_PROXY``, ``NO_PROXY``), or None.

    Only HTTPS goes through a proxy, which then sees no key. Plain HTTP goes straight to its server.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" or proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get("https")
