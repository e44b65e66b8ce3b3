"""Checking the models of a run before the first one is opened: nothing is loaded, computed or sent."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

from kshot.backends.hf.loading import readable_media as hf_media
from kshot.backends.making import MODELS, is_search_engine, names_search_engine, options_taken, with_read_options
from kshot.backends.replay import open_recording
from kshot.backends.search.recorded import is_recorded_run
from kshot.backends.search.specs import make_search_engine
from kshot.backends.server.http_errors import bytes_of
from kshot.backends.server.keys import normalised_urls
from kshot.backends.server.parameter_changes import read_request_options
from kshot.backends.server.settings import ServersSettings
from kshot.core.errors import BackendError, UsageError
from kshot.core.options import Options, flag
from kshot.core.protocols import Abilities, LanguageModel, Model, Source
from kshot.core.records import Loglik
from kshot.core.specs import Spec, options_of, own_urls, parse_spec
from kshot.core.text_files import regular_file
from kshot.core.validation import check_media

_CHECKED_BYTES = 64 << 20
"""Recorded prompts up to this size are read before the run."""

_SERVERS = ("openai", "anthropic")


def check_model(text: str, options: Mapping[str, Any] | None = None) -> None:
    """Refuse a spec that cannot be opened, as far as that shows without opening it.

    A search engine loads its encoder with the first text, so it is made and closed.
    """
    if is_search_engine(text):
        make_search_engine(text, options).close()
        return
    spec, defaults = with_read_options(text, options or {})
    MODELS.check(spec.text, **defaults)


def check_recording(path: str) -> None:
    """Refuse a recording that cannot be opened; of a large one, only that it can be read is checked."""
    file = Path(path).expanduser()
    file = file / "journal.jsonl" if file.is_dir() else file
    if not is_recorded_run(path):
        try:
            os.close(regular_file(file, os.O_RDONLY))
        except OSError as exc:
            raise BackendError(f"the recording cannot be read: {exc.strerror or exc}", where=f"replay:{path}") from exc
        if file.stat().st_size > _CHECKED_BYTES:
            return
    open_recording(path).close()


def check_truncates(text: str) -> None:
    """Refuse a model that does not cut prompts, where ``--truncate`` asks for it."""
    if is_search_engine(text):
        return
    found = MODELS.load(parse_spec(text))[0]
    abilities = getattr(found, "abilities", None)  # a plug-in may be any object
    if (isinstance(abilities, Abilities) and abilities.cuts_prompts) or "truncate" in options_of(found):
        return
    hint = "Leave --truncate out; hf:, vllm: and embedded models cut prompts that they open with it."
    raise UsageError("it does not cut prompts", where=text, hint=hint)


def is_server(given: str | Model) -> bool:
    """Whether a model is behind a server, as far as can be told without opening it."""
    if isinstance(given, str):
        spec = parse_spec(given)
        return spec.file is None and spec.name in _SERVERS
    return isinstance(given, LanguageModel) and given.abilities.server


def check_answers(given: str | Model, asked: Iterable[type], advice: str = "") -> None:
    """Refuse a model that cannot answer these types of request, as far as its class tells.

    ``advice``: what to do where it gives no log-probabilities.
    """
    if isinstance(given, str):
        if is_search_engine(given):
            return
        able = _declared(MODELS.load(parse_spec(given))[0], "answers")
    else:
        able = given.answers if isinstance(given, LanguageModel) else None
    if not isinstance(able, (tuple, list)) or not all(isinstance(each, type) for each in able):
        return  # only the opened model can say
    for kind in asked:
        if kind not in able:
            raise BackendError(
                f"it cannot answer {kind.__name__} requests, only {', '.join(each.__name__ for each in able)}",
                where=given if isinstance(given, str) else given.name,
                hint=advice if kind is Loglik else "",
            )


def check_reads(given: str | Model, media: Collection[str]) -> None:
    """Refuse a model that cannot read what prompts hold beside text, as far as that shows without opening it."""
    if not media:
        return
    if not isinstance(given, str):
        able = given.abilities.media if isinstance(given, LanguageModel) else None
    elif is_search_engine(given):
        return
    else:
        spec = parse_spec(given)
        if spec.file is None and spec.name == "hf":
            able = hf_media(spec.argument)
        else:
            found = getattr(MODELS.load(spec)[0], "media", None)  # a plug-in may be any object
            able = found if isinstance(found, frozenset) else None
    if able is not None:  # else only the opened model can say
        check_media(media, able, given if isinstance(given, str) else given.name)


def _declared(found: Any, name: str) -> Any:
    """Return what a class says of its instances; None if an instance may say something else, or if it is no class."""
    if not isinstance(found, type):  # a plug-in may be any object
        return None
    for cls in found.__mro__:
        for member in vars(cls).values():
            code = getattr(member, "__code__", None)
            if code is not None and _mentions(code, name):
                return None
    return getattr(found, name, None)


def _mentions(code: CodeType, name: str) -> bool:
    """Whether code names an attribute, as it must to set it."""
    if name in (*code.co_names, *code.co_consts):
        return True
    for each in code.co_consts:
        if (isinstance(each, tuple) and name in each) or (isinstance(each, CodeType) and _mentions(each, name)):
            return True
    return False


SettingsT = TypeVar("SettingsT", bound=Options)


def models_in(sources: Sequence[Source[SettingsT]], settings: SettingsT) -> list[str | Model]:
    """Return the models to run if the user names none: those of a config, else built-in ones that fit."""
    found: list[str | Model] = [spec for source in sources for spec in source.models]
    if found:
        return list(dict.fromkeys(found))
    for source in sources:
        usual = source.default_model(settings)
        if usual is None:
            raise UsageError(
                "it needs a model, and none is named",
                where=source.label,
                hint="Add -m MODEL, such as -m hf:PATH (kshot list models).",
            )
        found.append(usual)
    return list(dict.fromkeys(found))


def check_pairs(models: Sequence[str | Model], sources: Sequence[Source[SettingsT]], settings: SettingsT) -> None:
    """Refuse a dataset that fits none of the models, before anything is loaded."""
    kinds = {names_search_engine(spec) if isinstance(spec, str) else None for spec in models}
    for source in sources:
        searching = source.searches(settings)
        if None not in kinds and searching not in kinds:
            named = ", ".join(str(spec) for spec in models)
            who = "search engines" if searching else "language models"
            raise UsageError(
                f"{source.label} needs {who}, and there are none among: {named}",
                hint="Add -m fts5 (kshot list search-engines), or --method rag." if searching else "Add -m MODEL.",
            )


def not_taken(changed: Iterable[str], models: Sequence[str | Model]) -> Iterator[str]:
    """Name the options that the user has changed and that none of the models takes; one that is open takes none."""
    names = list(changed)
    taken = [options_taken(spec) for spec in models if isinstance(spec, str)] if names else []
    for name in names:
        if all(known is not None and name not in known for known in taken):
            named = ", ".join(spec if isinstance(spec, str) else spec.name for spec in models)
            yield f"{flag(name)} has no effect on {named}"


# ---- which account each model gets: an address, and the key and headers that are for it alone ----

_WRITTEN = {"api_key_env": "api_key_env=VARIABLE", "header": "header=NAME=env:VARIABLE"}


def options_of_spec(settings: ServersSettings, role: str, text: str) -> dict[str, Any]:
    """Return the server options that the model of a spec is opened with in this role."""
    return settings.server_options(role, own_address=bool(_own_urls(text)))


def check_values(settings: ServersSettings, served: Collection[str]) -> None:
    """Refuse values that no server could be asked with; the models of the ``served`` roles check more of them."""
    given = settings.changed()
    if "max_reply" in given:
        bytes_of(settings.max_reply)
    for role in ("model", "judge", "rewriter"):
        prefix = settings.prefix(role)
        if f"{prefix}base_url" in given:
            normalised_urls(given[f"{prefix}base_url"])
        if role not in served and f"{prefix}request_option" in given:
            read_request_options(given[f"{prefix}request_option"], "")


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
    servers = [spec for spec in specs if is_server(spec.text) and name not in spec.options]
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
