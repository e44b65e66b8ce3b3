"""Which account each model of a run gets: an address, and the key and headers that are for it alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kshot.backends.making import is_search_engine
from kshot.backends.server.address import normalised_urls
from kshot.backends.server.reading import bytes_of
from kshot.backends.server.request_options import read_request_options
from kshot.backends.server.settings import ServersSettings
from kshot.core.errors import UsageError
from kshot.core.options import flag
from kshot.core.protocols import Model
from kshot.core.specs import Spec, own_urls, parse_spec

_KINDS = ("openai", "anthropic")
_WRITTEN = {"api_key_env": "api_key_env=VARIABLE", "header": "header=NAME=env:VARIABLE"}


def options_of_spec(settings: ServersSettings, role: str, text: str) -> dict[str, Any]:
    """Return the server options that the model of a spec is opened with in this role."""
    return settings.server_options(role, own_address=bool(_own_urls(text)))


def check_values(settings: ServersSettings, served: Collection[str]) -> None:
    """Refuse values that no server could be asked with; the models of the ``served`` roles check more of them."""
    given = settings.changed()
    bytes_of(settings.max_reply)
    for role in ("model", "judge", "rewriter"):
        prefix = settings.prefix(role)
        if f"{prefix}base_url" in given:
            normalised_urls(given[f"{prefix}base_url"])
        if role not in served:
            read_request_options(given.get(f"{prefix}request_option", ()), "")


def check_accounts(models: Sequence[str | Model], helpers: Mapping[str, str], settings: ServersSettings) -> None:
    """Refuse a key or headers that would go to several servers or to none, and two addresses of one helper."""
    given = settings.server_options()
    for name in _WRITTEN:
        if name in given:
            _check_taken(name, given.get("base_url"), models, helpers, settings)
    for role, text in helpers.items():
        named = settings.changed_of(role).get(f"{settings.prefix(role)}base_url")
        if named is not None and _own_urls(text):
            option = flag(f"{settings.prefix(role)}base_url")
            raise UsageError(
                f"the {role} has two addresses: one in its name, and {option}", hint="Leave one of them out."
            )


def _check_taken(
    name: str,
    base_url: Sequence[str] | None,
    models: Sequence[str | Model],
    helpers: Mapping[str, str],
    settings: ServersSettings,
) -> None:
    specs = [parse_spec(text) for text in models if isinstance(text, str) and not is_search_engine(text)]
    servers = [spec for spec in specs if spec.file is None and spec.name in _KINDS and name not in spec.options]
    takers = [spec for spec in servers if base_url is None or not own_urls(spec)]
    places = sorted({_place(spec, base_url) for spec in takers})
    hint = f"Name it for each model: -m openai:MODEL@URL,{_WRITTEN[name]}."
    if len(places) > 1:
        raise UsageError(f"{flag(name)} would go to several servers: {', '.join(places)}", hint=hint)
    asked = [(role, text) for role, text in helpers.items() if settings.prefix(role)]
    shared = any(name in options_of_spec(settings, role, text) for role, text in asked)
    own_code = any(spec.file is not None for spec in specs) or not all(isinstance(each, str) for each in models)
    if not takers and not shared and not own_code and base_url is None:
        others = f"For a judge use {flag(f'judge_{name}')}, for a rewriter {flag(f'rewrite_{name}')}."
        raise UsageError(f"{flag(name)} is for a server, and no model of -m is behind one", hint=others)
    if not takers and not shared and not own_code:
        raise UsageError(f"{flag(name)} is for --base-url, and no model is asked there", hint=hint)


def _own_urls(text: str) -> tuple[str, ...]:
    return () if is_search_engine(text) else own_urls(parse_spec(text))


def _place(spec: Spec, base_url: Sequence[str] | None) -> str:
    urls = own_urls(spec) or base_url
    return " + ".join(normalised_urls(urls)) if urls else spec.name
