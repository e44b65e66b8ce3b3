"""Where a server is, and the keys and headers that go there: they are kept out of every text.

A key goes only to the host that it is for. ``OPENAI_API_KEY`` goes to OpenAI and ``ANTHROPIC_API_KEY`` to Anthropic.
Any other server gets a key or a header only if the user names it for that server.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from kshot.backends.server.http_errors import shortened
from kshot.backends.texts import common_length
from kshot.core.errors import BackendError, UsageError
from kshot.core.specs import split_urls

# ---- secrets in texts: a server may quote a key in any spelling, or cut off at either end ----

_MIN_KEY_CHARACTERS, _MIN_ALPHABETIC_KEY_CHARACTERS = 8, 16
"""A shorter key, or a shorter one of letters alone, may be any word (EMPTY, ollama) and is not removed from texts."""
_MIN_PIECE_CHARACTERS = 12
"""So much of a key is removed wherever it stands; of a shorter key, all of it."""
_BLOCK = 6


class _Place(NamedTuple):
    """Where a block of characters stands in a spelling, and how much of the spelling is removed from texts."""

    spelling: str
    offset: int
    fewest: int


class _Index(NamedTuple):
    places: dict[str, list[_Place]]
    """Every block of every spelling."""
    step: int
    """Any piece that is to be removed holds a whole block that begins at a multiple of this."""


def is_secret(text: str) -> bool:
    """Whether a text is long enough to be removed wherever it stands."""
    return len(text) >= (_MIN_ALPHABETIC_KEY_CHARACTERS if text.isalpha() else _MIN_KEY_CHARACTERS)


def redacted(text: str, secrets: tuple[str, ...]) -> str:
    """Return the text without any long piece of a secret."""
    places, step = _index(secrets)
    folded = _folded(text)
    if places.keys().isdisjoint(folded[at : at + _BLOCK] for at in range(0, len(folded), step)):
        return text
    kept, end = [], 0
    for start, stop in _spans(folded, places, step):
        kept.append(text[end:start])
        end = stop
    return "…".join([*kept, text[end:]])


def _spans(folded: str, places: dict[str, list[_Place]], step: int) -> Iterator[tuple[int, int]]:
    end = 0
    for at in range(0, len(folded), step):
        found = places.get(folded[at : at + _BLOCK]) if at >= end else None
        spans = [span for place in found or () if (span := _span(folded, at, place))]
        if spans:
            start, end = max(end, min(start for start, _ in spans)), max(stop for _, stop in spans)
            yield start, end


def _span(folded: str, at: int, place: _Place) -> tuple[int, int] | None:
    """Return from where to where the text agrees with a spelling, if that is long enough."""
    spelling, offset, fewest = place
    before = common_length(folded[max(0, at - offset) : at][::-1], spelling[:offset][::-1])
    after = common_length(folded[at : at + len(spelling) - offset], spelling[offset:])
    return (at - before, at + after) if before + after >= fewest else None


def _folded(text: str) -> str:
    """Return the text in small letters, of the same length."""
    small = text.lower()
    return small if len(small) == len(text) else text.replace("\u0130", "i").lower()  # only this one gets longer


@lru_cache
def _index(secrets: tuple[str, ...]) -> _Index:
    places: dict[str, list[_Place]] = {}
    step = _MIN_PIECE_CHARACTERS - _BLOCK + 1
    keys = {part for secret in secrets for part in _parts(secret)}
    spellings = {(_folded(spelling), len(key)) for key in keys for spelling in _spelled(key)}
    for spelling, characters in sorted(spellings):
        fewest = len(spelling) * min(_MIN_PIECE_CHARACTERS, characters) // characters
        step = min(step, fewest - _BLOCK + 1)
        for offset in range(len(spelling) - _BLOCK + 1):
            places.setdefault(spelling[offset : offset + _BLOCK], []).append(_Place(spelling, offset, fewest))
    return _Index(places, step)


def _parts(value: str) -> Iterator[str]:
    """Yield what is secret of a value: all of it, what follows ``Bearer``, and what ``Basic`` encodes."""
    parts = [value, *value.split()[1:]]
    for text in value.split()[1:]:
        try:
            plain = base64.b64decode(text, validate=True).decode()
        except (binascii.Error, ValueError):
            continue
        parts += [plain, plain.partition(":")[2]]
    yield from filter(is_secret, parts)


def _spelled(key: str) -> Iterator[str]:
    yield from (key, quote(key), quote(key, safe=""), json.dumps(key)[1:-1], key.encode().hex())
    for lead in range(3):  # where the key begins within a group of three bytes
        encoded = base64.b64encode(b"\0" * lead + key.encode()).decode().rstrip("=")
        end = len(encoded) - 1 if (lead + len(key)) % 3 else len(encoded)  # the last sign depends on what follows
        for text in (encoded, encoded.replace("+", "-").replace("/", "_")):
            yield text[(0, 2, 3)[lead] : end]


# ---- keys ----

_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SHOWN_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+", re.ASCII)
"""A name that cannot be a key which the user gave by mistake: messages show it."""
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~\w-]+", re.ASCII)
_SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|password|credential|session|signature", re.IGNORECASE)
"""The name of a header whose value is secret, even if the user wrote it on the command line."""
_KEY_HEADERS = frozenset({"authorization", "x-api-key", "api-key"})
_OWN_HEADERS = frozenset(
    {"host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect", "content-length"}
    | {"content-type", "content-encoding", "accept-encoding", "proxy-authorization", "proxy-connection"}
)
_ENVIRONMENT = "env:"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A text that no repr, message or traceback shows."""

    _text: str

    def reveal(self) -> str:
        """Return the text itself, to send it."""
        return self._text

    def __bool__(self) -> bool:
        """Whether it is not empty."""
        return bool(self._text)

    def __repr__(self) -> str:
        """Show nothing of it."""
        return "Secret(…)"


# ---- which key goes where ----


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider with a host and a key of its own, and the header that carries a key to servers of its kind."""

    name: str
    url: str
    key_variable: str
    key_header: Callable[[str], tuple[str, str]] = field(repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    """Headers that every request has, unless the user sets them."""

    @property
    def host(self) -> str:
        """The host that the key is for."""
        return urlsplit(self.url).hostname or ""

    def owns(self, url: str) -> bool:
        """Whether an address is the provider's own, so that its key may go there; others may listen on plain HTTP."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        return (
            parts.scheme == "https"
            and parts.port in (None, 443)
            and (host == self.host or host.endswith(f".{self.host}"))
        )


@dataclass(frozen=True, slots=True)
class Account:
    """The headers that a server is asked with, which of their values are secret, and what to do if it refuses them."""

    headers: tuple[tuple[str, Secret], ...] = ()
    secrets: tuple[Secret, ...] = ()
    hint: str = ""

    def redacted(self, text: str) -> str:
        """Return the text without any key, or any long piece of one, which a server may quote."""
        return redacted(text, tuple(secret.reveal() for secret in self.secrets)) if self.secrets else text

    def redacted_json(self, body: Any) -> Any:
        """Return the same JSON with every text in it redacted."""
        match body:
            case str():
                return self.redacted(body)
            case list():
                return [self.redacted_json(item) for item in body]
            case Mapping():
                return {self.redacted(name): self.redacted_json(value) for name, value in body.items()}
        return body


def account_for(provider: Provider, url: str, variable: str | None, headers: Sequence[str], where: str) -> Account:
    """Return what the server at this address is asked with."""
    given = _given_headers(headers, where)
    own_key = bool(given.keys() & _KEY_HEADERS)
    name = variable
    if name is None and not own_key and provider.owns(url):
        name = provider.key_variable
    if name is not None and own_key:
        raise UsageError(
            "--header and --api-key-env both give a key", where=where, hint="Leave one of them out for this server."
        )
    carried = [(header, Secret(value)) for header, value in provider.headers if header not in given]
    carried += [(header, value) for header, value, _ in given.values()]
    secrets = [value for _, value, is_secret in given.values() if is_secret]
    if name is not None:
        key = _key(name, where, is_default=variable is None)
        header, value = provider.key_header(key.reveal())
        carried.append((header, Secret(value)))
        secrets.append(key)
    return Account(tuple(carried), tuple(secrets), _hint(provider, url, name, own_key=own_key))


def _key(variable: str, where: str, *, is_default: bool) -> Secret:
    """Return the key in an environment variable; it is an error if there is none."""
    key = variable_value(variable, "--api-key-env", where)
    if key is None and is_default:
        hint = "Set it, or name another variable: --api-key-env (--judge-api-key-env, --rewrite-api-key-env)."
        raise BackendError(f"{variable} is not set", where=where, hint=hint)
    if key is None:
        raise BackendError(
            f"{_shown(variable, '--api-key-env')} is not set",
            where=where,
            hint="--api-key-env takes the name of the environment variable that holds the key.",
        )
    return key


def variable_value(variable: str, option: str, where: str) -> Secret | None:
    """Return what an environment variable holds, if that can be sent; None if it is empty or not set.

    No message shows a name that may be a key, given in the place of the name.
    """
    if not _VARIABLE.fullmatch(variable):
        raise UsageError(
            f"{option} does not name an environment variable",
            where=where,
            hint="Put the key into a variable, and give the variable's name.",
        )
    value = Secret(os.environ.get(variable, "").strip())
    if not value.reveal().isascii() or not value.reveal().isprintable():
        shown = _shown(variable, option)
        raise BackendError(f"{shown} holds characters that no key has", where=where, hint="Set it again.")
    return value or None


def _shown(variable: str, option: str) -> str:
    return variable if _SHOWN_VARIABLE.fullmatch(variable) else f"the variable that {option} names"


def _hint(provider: Provider, url: str, variable: str | None, *, own_key: bool) -> str:
    """Return what to do if the server refuses the key, or asks for one."""
    if own_key:
        return "Give --header another value: the server does not accept the key in it."
    if variable is not None:
        return (
            f"Set {_shown(variable, '--api-key-env')} to a key that the server accepts, or name another variable with "
            "--api-key-env."
        )
    text = (
        "No key was sent. Name the environment variable that holds the server's key: --api-key-env VARIABLE (for a "
        "judge --judge-api-key-env, for a rewriter --rewrite-api-key-env)."
    )
    if provider.owns(url):
        return text
    return f"{text} {provider.key_variable} goes to {provider.host} alone, unless it is named for another server."


# ---- headers ----


def _given_headers(texts: Iterable[str], where: str) -> dict[str, tuple[str, Secret, bool]]:
    """Read ``NAME=VALUE`` and ``NAME=env:VARIABLE``: the name, the value, and whether it is secret, by the small name.

    No message shows a value.
    """
    found: dict[str, tuple[str, Secret, bool]] = {}
    for text in texts:
        name, equals, given = text.partition("=")
        name, given = name.strip(), given.strip()
        if not equals or not _HEADER_NAME.fullmatch(name):
            raise UsageError(
                "--header is not NAME=VALUE",
                where=where,
                hint="Write it as --header X-Team=eval.",
            )
        if name.lower() in _OWN_HEADERS:
            raise UsageError(f"--header cannot set {name}", where=where, hint="kshot sets or leaves it out itself.")
        if name.lower() in found:
            raise UsageError(f"--header gives {name} twice", where=where)
        value: Secret | None = Secret(given)
        if given.startswith(_ENVIRONMENT):
            value = variable_value(given.removeprefix(_ENVIRONMENT), f"--header {name}", where)
            if value is None:
                raise BackendError(f"the variable that --header {name} names is not set", where=where, hint="Set it.")
        elif not given.isascii() or not given.isprintable():
            hint = "Use printable ASCII characters on one line."
            raise UsageError(f"--header {name} holds characters that no header has", where=where, hint=hint)
        secret = given.startswith(_ENVIRONMENT) or _SECRET_NAME.search(name) is not None
        found[name.lower()] = (name, value or Secret(""), secret)
    return found


def check_spec_headers(text: str, where: str) -> None:
    """Refuse a header with a plain value after a model's name, because that name is written to disk."""
    for each in text.split("+"):
        name, _, value = each.partition("=")
        if not value.startswith(_ENVIRONMENT):
            shown = name.strip() if _HEADER_NAME.fullmatch(name.strip()) else "NAME"
            raise UsageError(
                "a header after a model's name must come from the environment, because that name is written to disk",
                where=where,
                hint=f"Write …,header={shown}=env:VARIABLE, or use --header.",
            )


# ---- where a server is: its URL, and the proxy on the way to it ----

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
    parts = _url_parts(url.strip())
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


def _url_parts(url: str) -> SplitResult | None:
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
    parts = _url_parts(text if "://" in text else f"http://{text}")
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
