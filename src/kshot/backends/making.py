"""Models by spec: ``hf:PATH``, ``openai:NAME,rpm=60``, ``bm25,k1=1.2``, ``file.py:Class``."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from kshot.backends.adapters import as_model, renamed
from kshot.backends.search.specs import (
    SEARCH_ENGINES,
    make_search_engine,
    search_engine_kind,
    search_engine_packages,
    varying_part,
)
from kshot.core.errors import UsageError
from kshot.core.protocols import Model
from kshot.core.registry import Entry, Registry
from kshot.core.specs import Spec, option_text, options_of, own_urls, parse_spec, split_options

MODELS = Registry(
    "models",
    "language model",
    [
        Entry(
            "embedded",
            "kshot.backends.embedded:Embedded",
            "the built-in model: small, trained on token lookup, needs no torch",
            check="kshot.backends.embedded:Embedded",
        ),
        Entry(
            "hf",
            "kshot.backends.hf.model:Transformers",
            "a Hugging Face model, run by transformers (extra: hf)",
            "hf:PATH_OR_ID",
            needs_argument=True,
            packages=("torch", "transformers"),
            check="kshot.backends.hf.loading:check_model",
        ),
        Entry(
            "vllm",
            "kshot.backends.vllm.model:Vllm",
            "a Hugging Face model, run by vLLM in this process (extra: vllm)",
            "vllm:PATH_OR_ID",
            needs_argument=True,
            packages=("vllm",),
            check="kshot.backends.vllm.model:check_model",
        ),
        Entry(
            "openai",
            "kshot.backends.server.openai:OpenAI",
            "a model behind an OpenAI-compatible server, at --base-url or OpenAI's own (extra: api)",
            "openai:MODEL",
            needs_argument=True,
            packages=("aiohttp",),
            check="kshot.backends.server.openai:OpenAI",
        ),
        Entry(
            "anthropic",
            "kshot.backends.server.anthropic:Anthropic",
            "a model behind Anthropic's API (extra: api)",
            "anthropic:MODEL",
            needs_argument=True,
            packages=("aiohttp",),
            check="kshot.backends.server.anthropic:Anthropic",
        ),
        Entry(
            "replay",
            "kshot.backends.replay:open_recording",
            "recorded answers: another run's folder or journal, JSONL with prompt and response, or a TREC run",
            "replay:FILE",
            needs_argument=True,
            is_factory=True,
            check="kshot.backends.checking:check_recording",
        ),
    ],
)


def open_model(text: str, options: Mapping[str, Any] | None = None) -> Model:
    """Open the language model or search engine that a spec names; ``options`` are passed on to whatever takes them.

    The option ``chat_template``, in the spec or among ``options``, names a file.
    """
    if is_search_engine(text):
        return make_search_engine(text, options)
    spec, defaults = with_read_options(text, options or {})
    made = MODELS.make(spec.text, **defaults)
    written, given = split_options(text)
    model = as_model(made, written)
    return renamed(model, f"{model.name}{option_text(given)}") if given else model


def with_read_options(text: str, options: Mapping[str, Any]) -> tuple[Spec, dict[str, Any]]:
    """Return the spec of a language model and the options of the run for it; a chat template is read from its file."""
    spec = parse_spec(text)
    entry = None if spec.file is not None else MODELS.find(spec.name)
    if spec.file is None and entry is None:
        raise _unknown(text)
    other = None if entry is None else SEARCH_ENGINES.find(entry.name)
    if entry is not None and other is not None and (entry.origin, other.origin) != ("kshot", "kshot"):
        raise UsageError(
            f"a model and a search engine are called {entry.name!r}: {entry.target} ({entry.origin}) and "
            f"{other.target} ({other.origin})",
            hint="Rename one of them, or remove its package.",
        )
    return _with_template(spec, _without_other_account(spec, options))


def model_packages(text: str) -> tuple[str, ...]:
    """Return the packages of kshot's extras that a spec needs, as far as can be told without opening it."""
    return search_engine_packages(text) if is_search_engine(text) else MODELS.packages(parse_spec(text))


def check_deterministic(given: str | Model) -> None:
    """Refuse a model that cannot promise the same bytes at any batch size and after any crash."""
    if not isinstance(given, str):
        what = "it was made before, and deterministic cannot be set any more"
        hint = "Make it so that it is deterministic, and leave the option out."
        raise UsageError(what, where=given.name, hint=hint)
    if is_search_engine(given):
        varying = varying_part(given)
    else:
        spec = parse_spec(given)
        takes_option = spec.name == "replay" or "deterministic" in options_of(MODELS.load(spec)[0])
        varying = None if takes_option else given
    if varying is not None:
        raise UsageError(
            "--deterministic cannot be promised for it: what is computed beside a request may change its last digits",
            where=varying,
            hint="Leave --deterministic out, or set it for one model alone: -m hf:MODEL,deterministic=yes.",
        )


def options_taken(text: str) -> Collection[str] | None:
    """Return the names of the options that the model of a spec takes; None if that shows only when it is opened."""
    if is_search_engine(text):
        return None  # its parts take options too
    return options_of(MODELS.load(parse_spec(text))[0])


def is_search_engine(text: str) -> bool:
    """Whether a text begins with the name of a search engine; its parts have options of their own."""
    kind = search_engine_kind(text)
    return kind is not None and MODELS.find(kind) is None


def _with_template(spec: Spec, options: dict[str, Any]) -> tuple[Spec, dict[str, Any]]:
    """Read the file that ``chat_template`` names; an option of the spec overrides that of the run."""
    own = dict(spec.options)
    if "chat_template" in own and "chat_template" not in options_of(MODELS.load(spec)[0]):
        return spec, options  # it has no such option, which is an error
    file = own.pop("chat_template", None) or options.get("chat_template")
    if file is None:
        return spec, options
    from kshot.prompts.chat import read_template

    head, _ = split_options(spec.text)
    return parse_spec(head + option_text(own)), {**options, "chat_template": read_template(file)}


def _without_other_account(spec: Spec, options: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the key and the headers of ``--base-url`` for a model that names an address of its own.

    What a spec must not hold, because it is written to disk, is refused before anything can show the spec.
    """
    if "header" in spec.options and spec.file is None:
        from kshot.backends.server.keys import check_spec_headers

        check_spec_headers(spec.options["header"], spec.name)
    urls = own_urls(spec)
    if not urls:
        return dict(options)
    from kshot.backends.server.keys import normalised_urls

    other = ("api_key_env", "header") if normalised_urls(urls) and "base_url" in options else ()
    return {name: value for name, value in options.items() if name not in other}


def _unknown(text: str) -> UsageError:
    known = {entry.name: entry.written for entry in (*MODELS.entries(), *SEARCH_ENGINES.entries())}
    close = difflib.get_close_matches(parse_spec(text).name.lower(), known, 1)
    meant = f"Did you mean {known[close[0]].partition('[')[0]}? " if close else ""
    see = "See kshot list models and kshot list search-engines, or write path/to/file.py:Class."
    return UsageError(f"there is no model {text!r}", hint=meant + see)


def names_search_engine(text: str) -> bool | None:
    """Whether a spec names a search engine, as far as can be told without opening it."""
    if is_search_engine(text):
        return True
    spec = parse_spec(text)
    if spec.file is not None:
        return None
    if spec.name == "replay":
        from kshot.backends.search.recorded import is_recorded_run

        return True if is_recorded_run(spec.argument) else None  # a journal may hold searches too
    return False if MODELS.find(spec.name) is not None else None
