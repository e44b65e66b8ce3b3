"""Backends: whatever answers requests. A spec such as ``hf:PATH`` names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kshot.backends.search.specs import ENGINES, engine_of, is_engine
from kshot.core.errors import BackendError, UsageError
from kshot.core.registry import class_in, split_plugin
from kshot.core.task import Backend

Options = Mapping[str, Any]


_OF_TRANSFORMERS = ("dtype", "revision", "trust_remote_code", "add_bos", "device", "batch_size", "chat_template")
_OF_VLLM = ("dtype", "revision", "trust_remote_code", "add_bos", "device", "engine_option", "chat_template")


def _hf(path: str, options: Options) -> Backend:
    from kshot.backends.hf.model import Transformers

    if path == "embedded":
        from kshot.backends.embedded import FOLDER

        path = str(FOLDER)
    return Transformers(path, **{name: options[name] for name in _OF_TRANSFORMERS if options.get(name) is not None})


def _vllm(path: str, options: Options) -> Backend:
    from kshot.backends.vllm.model import Vllm

    return Vllm(path, **{name: options[name] for name in _OF_VLLM if options.get(name) is not None})


def _embedded(rest: str, options: Options) -> Backend:
    from kshot.backends.embedded import Embedded

    if rest:
        raise UsageError(f"there is one embedded model, so nothing can follow its name: {rest!r}")
    return Embedded(batch_size=options.get("batch_size") or 16)


def _replay(path: str, options: Options) -> Any:  # noqa: ARG001 - a recording has no options
    from kshot.backends.replay import Replay
    from kshot.backends.search.recorded import Recorded, is_recorded_run

    return Recorded(path) if is_recorded_run(path) else Replay(path)


def _openai(spec: str, options: Options) -> Backend:
    from kshot.backends.server.openai import OpenAI

    return OpenAI(spec, options)


def _anthropic(spec: str, options: Options) -> Backend:
    from kshot.backends.server.anthropic import Anthropic

    return Anthropic(spec, options)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of backend: how its spec is written, what it is, and how it is opened."""

    spec: str
    text: str
    open: Callable[[str, Options], Any]


KINDS: dict[str, Kind] = {
    "embedded": Kind("embedded", "the model in the box: small, trained on token lookup, no torch needed", _embedded),
    "hf": Kind("hf:PATH_OR_ID", "a Hugging Face model, run by transformers (extra: hf)", _hf),
    "vllm": Kind("vllm:PATH_OR_ID", "a Hugging Face model, run by vLLM in this process (extra: vllm)", _vllm),
    "openai": Kind(
        "openai:MODEL",
        "a model behind an OpenAI-compatible server, at --base-url or OpenAI's own (extra: api)",
        _openai,
    ),
    "anthropic": Kind("anthropic:MODEL", "a model behind Anthropic's API (extra: api)", _anthropic),
    "replay": Kind(
        "replay:FILE",
        "recorded answers: another run's folder or journal, JSONL with prompt and response, or a TREC run",
        _replay,
    ),
}


def open_backend(spec: str, options: Options | None = None) -> Any:
    """Open the backend or search engine a spec names; ``file.py:Class`` makes one of the user's own."""
    plugin = split_plugin(spec)
    if plugin is not None:
        return _own(class_in(*plugin, None), spec)
    kind, _, rest = spec.partition(":")
    if kind not in KINDS and is_engine(spec):
        return engine_of(spec, options)
    if kind not in KINDS or (kind != "embedded" and not rest):
        known = ", ".join(dict.fromkeys([*(k.spec for k in KINDS.values()), *(e.spec for e in ENGINES.values())]))
        raise UsageError(f"there is no model {spec!r}", hint=f"Write one of: {known}, or path/to/file.py:Class.")
    return KINDS[kind].open(rest, options or {})


def names_engine(spec: str) -> bool | None:
    """Whether a spec names a search engine, as far as can be told without opening it."""
    if split_plugin(spec) is not None:
        return None
    kind, _, rest = spec.partition(":")
    if kind == "replay":
        from kshot.backends.search.recorded import is_recorded_run

        return True if is_recorded_run(rest) else None  # a journal may hold searches too
    if kind in KINDS:
        return False
    return True if is_engine(spec) else None


def _own(cls: type, spec: str) -> Any:
    try:
        made = cls()
    except TypeError as exc:
        raise BackendError(f"it cannot be made without arguments: {exc}", where=spec) from exc
    needed = ("name", "fingerprint", *(("over",) if hasattr(made, "over") else ("answers", "serve")))
    missing = [name for name in needed if getattr(made, name, None) is None]
    if missing:
        raise BackendError(f"it is no backend: it has no {', '.join(missing)}", where=spec)
    return made
