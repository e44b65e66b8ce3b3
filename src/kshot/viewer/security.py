"""Who may ask a viewer: the browser that was given the link, and no page of another origin."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import parse_qs

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names by which a browser reaches this machine, or the near end of an SSH tunnel; other names may lead here, too,
through a DNS server of somebody who wants to read what is here."""

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)
"""A page runs its own scripts alone, and talks to nobody else."""

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": f"{PAGE_POLICY}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
"""What every answer has."""

_METHODS = ("GET", "HEAD")
_MAX_TARGET = 32_768
"""Characters of a path with its query: more than any state of a page takes."""

Way: TypeAlias = Literal["cookie", "link"]


class RefusedRequest(NamedTuple):
    """Why a request is refused: the HTTP status, and what the page says."""

    status: int
    why: str


_NO_LINK = RefusedRequest(403, "This page needs the link that kshot view printed in its terminal; it has a token.")
_FOREIGN = RefusedRequest(403, "A page of another site asked for this; kshot view answers its own pages only.")


@dataclass(slots=True)
class Access:
    """The token of a viewer, and the links that work once: browsers are started with one of those.

    The arguments of a process are there for every user of a machine to read; a link that was used tells them nothing.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    _once: set[str] = field(default_factory=set, repr=False)

    def one_use(self) -> str:
        """Return a token for one request."""
        token = secrets.token_urlsafe(24)
        self._once.add(token)
        return token

    def admits(self, given: str) -> bool:
        """Whether a token is right."""
        if _same(given, self.token):
            return True
        used = next((each for each in self._once if _same(given, each)), None)
        self._once.discard(used or "")
        return used is not None


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), token.encode())


class Asked(NamedTuple):
    """What decides on a request: its method, path and query, and its headers by their lower-case names."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]


def refusal(asked: Asked) -> RefusedRequest | None:
    """Return why this request is refused, with or without the token; None if it is not."""
    if len(asked.path) + len(asked.query) > _MAX_TARGET:
        return RefusedRequest(414, "This address is too long.")
    host = asked.headers.get("host", "")
    if host_name(host) not in LOOPBACK:
        return RefusedRequest(
            421, f"kshot view is at {LOOPBACK[0]}, and answers to no other name; this request has one."
        )
    origin = asked.headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return _FOREIGN
    if asked.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"} and not _opens_page(asked):
        return _FOREIGN
    if asked.method not in _METHODS:
        return RefusedRequest(405, "kshot view only shows: it takes GET and HEAD requests.")
    return None


def _opens_page(asked: Asked) -> bool:
    """Whether a link was followed to the page itself, in a window of its own; it needs the token still."""
    mode, place = asked.headers.get("sec-fetch-mode"), asked.headers.get("sec-fetch-dest")
    return asked.path == "/" and mode == "navigate" and place == "document" and asked.method in _METHODS


def host_name(host: str) -> str:
    """Return the name in a ``Host`` header, without its port; "" if it is none. A tunnel may have another port."""
    found = re.fullmatch(r"(?:\[(?P<six>[0-9a-f:]+)\]|(?P<name>[a-z0-9.-]+))(?::\d{1,5})?", host.lower())
    return "" if found is None else found["six"] or found["name"]


def way_in(asked: Asked, access: Access, cookie: str) -> Way | RefusedRequest:
    """Return by what a request is admitted: the cookie of this viewer, or the token in the link to its page."""
    if _same(_cookies(asked.headers.get("cookie", "")).get(cookie, ""), access.token):
        return "cookie" if "token" not in parse_qs(asked.query) or asked.path != "/" else "link"
    if asked.path == "/" and access.admits((parse_qs(asked.query).get("token") or [""])[0]):
        return "link"
    return _NO_LINK


def _cookies(header: str) -> dict[str, str]:
    """Return the cookies of a request; other programs of this machine may have left strange ones."""
    pairs = (each.strip().partition("=") for each in header.split(";"))
    return {name: value for name, _, value in pairs}
