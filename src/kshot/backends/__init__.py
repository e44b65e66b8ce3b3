"""Models by spec: ``hf:PATH``, ``openai:NAME,rpm=60``, ``bm25,k1=1.2``, ``file.py:Class``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshot.backends.adapters import RenamedModel, as_model
from kshot.backends.search.specs import SEARCH_ENGINES, make_search_engine, search_engine_kind
from kshot.core.errors import UsageError
from kshot.core.protocols import LanguageModel, Model
from kshot.core.registry import Entry, Registry
from kshot.core.specs import Spec, construct, parse_spec

MODELS = Registry(
    "models",
    "language model",
    [
        Entry(
            "embedded",
            "kshot.backends.embedded:Embedded",
            "the built-in model: small, trained on token lookup, needs no torch",
        ),
        Entry(
            "hf",
            "kshot.backends.hf.model:Transformers",
            "a Hugging Face model, run by transformers (extra: hf)",
            "hf:PATH_OR_ID",
        ),
        Entry(
            "vllm",
            "kshot.backends.vllm.model:Vllm",
            "a Hugging Face model, run by vLLM in this process (extra: vllm)",
            "vllm:PATH_OR_ID",
        ),
        Entry(
            "openai",
            "kshot.backends.server.openai:OpenAI",
            "a model behind an OpenAI-compatible server, at --base-url or OpenAI's own (extra: api)",
            "openai:MODEL",
        ),
        Entry(
            "anthropic",
            "kshot.backends.server.anthropic:Anthropic",
            "a model behind Anthropic's API (extra: api)",
            "anthropic:MODEL",
        ),
        Entry(
            "replay",
            "kshot.backends.replay:open_recording",
            "recorded answers: another run's folder or journal, JSONL with prompt and response, or a TREC run",
            "replay:FILE",
        ),
    ],
)


def open_model(text: str, options: Mapping[str, Any] | None = None) -> Model:
    """Open the language model or search engine that a spec names; ``options`` are passed on if it takes them."""
    spec = parse_spec(text)
    if spec.file is not None:
        return _plugged_in(spec, options or {})
    entry = MODELS.find(spec.name)
    if entry is None and search_engine_kind(text) is not None:
        return make_search_engine(text, options)
    if entry is None or (":" in entry.written) != bool(spec.argument):
        raise _unknown(spec)
    args = [spec.argument] if spec.argument else []
    model = as_model(construct(entry.load(), spec, *args, **(options or {})), text)
    if spec.options and isinstance(model, LanguageModel):
        return RenamedModel(model, f"{model.name}{spec.option_text}")
    return model


def _plugged_in(spec: Spec, options: Mapping[str, Any]) -> Model:
    found, rest = MODELS.load(spec)
    if not isinstance(found, type):  # a function is itself a model
        return as_model(found, spec.text)
    args = [rest] if rest else []
    try:
        made = construct(found, spec, *args, **options)
    except TypeError as exc:
        raise UsageError(f"the class cannot be called with these options: {exc}", where=spec.text) from exc
    return as_model(made, spec.text)


def _unknown(spec: Spec) -> UsageError:
    written = [entry.written for entry in (*MODELS.entries(), *SEARCH_ENGINES.entries())]
    known = ", ".join(dict.fromkeys(written))
    return UsageError(f"there is no model {spec.text!r}", hint=f"Write one of: {known}, or path/to/file.py:Class.")


def names_search_engine(text: str) -> bool | None:
    """Whether a spec names a search engine, as far as can be told without opening it."""
    spec = parse_spec(text)
    if spec.file is not None:
        return None
    if spec.name == "replay":
        from kshot.backends.search.recorded import is_recorded_run

        return True if is_recorded_run(spec.argument) else None  # a journal may hold searches too
    if MODELS.find(spec.name) is not None:
        return False
    return True if search_engine_kind(text) is not None else None
