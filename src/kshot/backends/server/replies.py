"""Reading a server's JSON, for both APIs: text, separate reasoning, stop reason, token counts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kshot.backends.server.address import Address
from kshot.backends.server.connection import MalformedReplyError
from kshot.backends.server.http_errors import RequestFailedError, shortened
from kshot.backends.server.keys import Account
from kshot.backends.server.token_logprobs import tokens_in
from kshot.backends.texts import cut_at_stop
from kshot.core.content import texts_in
from kshot.core.reasoning import ending_early, without_thoughts
from kshot.core.records import Failed, Generate, Generated, Prompt, TokenLogprobs, Usage

_LENGTH_REASONS = frozenset({"length", "max_tokens"})
_WINDOW_REASONS = frozenset({"model_context_window_exceeded"})
_FILTER_REASONS = frozenset({"content_filter", "refusal", "safety", "prohibited_content", "sensitive"})
_MAX_TOKENS = 10**8
_MEDIA_TOKENS = 1000
"""What an image or another part that is no text is taken for, until the server says how many tokens it used."""
"""A token count above this is wrong: no context window is as large."""


def generated(
    request: Generate,
    text: str | None,
    reasoning: str,
    stop_reason: str | None,
    usage: Usage | None,
    *,
    called_tool: bool = False,
    opened: bool = False,
    readings: Sequence[TokenLogprobs] = (),
) -> Generated:
    """Return the response to a Generate.

    The request fails if the server withheld the text or the rest of it, if the model called a tool instead of writing,
    and if there is neither a text nor reasoning. ``text`` is None if there is none; an empty text is an answer.
    Thoughts in the text, which the prompt may have ``opened``, are taken out first: they may contain a stop string.
    ``readings``: how the tokens that the server gives may be read; those of the text are found among them.
    """
    if str(stop_reason).lower() in _FILTER_REASONS:
        what = "withheld the rest of the reply" if text else "withheld the reply"
        raise RequestFailedError(Failed("content_filter", f"the server {what} ({stop_reason})"))
    if called_tool and not text:
        raise RequestFailedError(Failed("no_text", "the model called a tool and wrote no text"))
    if text is None and not reasoning:
        reason = shortened(str(stop_reason))
        raise RequestFailedError(Failed("no_text", f"the server's reply has no text (stop reason: {reason})"))
    reason = "length" if stop_reason in _LENGTH_REASONS else "window" if stop_reason in _WINDOW_REASONS else "stop"
    reply = without_thoughts(Generated(text or "", reason, usage, reasoning), opened=opened)
    reply = replace(reply, token_logprobs=tokens_in(readings, reply.text))
    # Servers accept few stop strings, and some leave them in the text.
    short = cut_at_stop(reply.text, request.stop)
    return reply if short is None else ending_early(replace(reply, stop_reason="stop"), short)


def usage_from(
    body: Mapping[str, Any], prompt_field: str = "prompt_tokens", completion_field: str = "completion_tokens"
) -> Usage | None:
    """Return the token counts, if the server gives them and they are possible."""
    given = body.get("usage")
    if not isinstance(given, Mapping) or given.get(prompt_field) is None:
        return None
    details = given.get("prompt_tokens_details")
    reported = details.get("cached_tokens") if isinstance(details, Mapping) else given.get("prompt_cache_hit_tokens")
    fields = (prompt_field, completion_field, "cache_creation_input_tokens", "cache_read_input_tokens")
    counts = [0 if count is None else count for count in (*map(given.get, fields), reported)]
    if not all(type(count) is int and 0 <= count <= _MAX_TOKENS for count in counts):
        return None
    read, wrote, made, hit, reported = counts
    if prompt_field == "input_tokens":  # Anthropic counts what was cached apart, OpenAI among the tokens of the prompt
        return Usage(read + made + hit, wrote, hit)
    return Usage(read, wrote, min(read, reported or hit))


def texts_of(parts: Sequence[Any], kind: str = "text") -> list[str]:
    """Return the texts of one kind among the content parts of a reply."""
    texts = [part.get(kind) for part in parts if isinstance(part, dict) and part.get("type") == kind]
    return [text for text in texts if isinstance(text, str)]


def only_choice(body: Any) -> Mapping[str, Any]:
    """Return the one choice of a reply."""
    choices = body["choices"]
    if not choices:
        raise MalformedReplyError("no choices")
    first: Mapping[str, Any] = choices[0]
    return first


def estimated_tokens(prompt: Prompt, reply_tokens: float) -> float:
    """Estimate the tokens of a call: one for four characters of the prompt, some for media, and those of the reply."""
    texts = (text for message in prompt.messages for text in texts_in(message.content))
    size = sum(map(len, texts)) if prompt.messages else len(prompt.text)
    return size / 4 + 1 + _MEDIA_TOKENS * len(prompt.media) + reply_tokens


def used_tokens(usage: Usage | None) -> float:
    """Return the tokens that a call took; 0 if the server does not give them."""
    return float(usage.prompt_tokens + usage.completion_tokens) if usage else 0.0


def sampled_seed(request: Generate) -> int | None:
    """Return the seed of a sampled reply, which differs for every replica."""
    if not request.temperature:
        return None
    return ((request.seed or 0) + request.replica) % 2**31 if request.seed is not None or request.replica else None


# ---- what is strange about replies and does no harm to them: it is noted once ----

_DATED = re.compile(r"[-@:._](?:\d{4}-\d{2}-\d{2}|\d{3,8}|latest)")
_ENDINGS = (".gguf", ".safetensors", ".bin")


class Notes:
    """The notes on the servers of one model, each once."""

    def __init__(self, model: str, usage_fields: tuple[str, str], addresses: Sequence[Address]) -> None:
        self.texts: list[str] = []
        self._model, self._usage_fields = model, usage_fields
        self._said: dict[str, Any] = {}
        """The model that the latest reply of each server names."""
        self._named_other: set[str] = set()
        """The servers whose replies have named another model than was asked for."""
        places = [f"{each.url}: " for each in addresses] if len(addresses) > 1 else [""]
        self.inspectors = tuple(
            partial(self._inspect, place, each.account) for place, each in zip(places, addresses, strict=True)
        )
        """One for each server; it is called with every reply."""

    def add(self, text: str) -> None:
        """Keep a note, unless there is one like it."""
        if text not in self.texts:
            self.texts.append(text)

    def _inspect(self, place: str, account: Account, body: Any) -> Usage | None:
        """Return the token counts; note a model other than the one asked for, and impossible counts."""
        if not isinstance(body, Mapping):
            return None
        said = body.get("model")
        is_new, self._said[place] = said != self._said.get(place, self._model), said  # most replies name the same model
        if is_new and isinstance(said, str) and place not in self._named_other and names_other_model(self._model, said):
            self._named_other.add(place)
            shown = account.redacted(f"{shortened(said)[:80]!r} instead of {self._model!r}")
            self.add(f"{place}the replies name another model than was asked for: {shown}")
        given, usage = body.get("usage"), usage_from(body, *self._usage_fields)
        counted = isinstance(given, Mapping) and given.get(self._usage_fields[0]) is not None
        if usage is None and (counted or (given is not None and not isinstance(given, Mapping))):  # -1, "12", 1e308
            text = "the server gives token counts that are not possible; they are not counted"
            self.add(f"{place}{text}")
        return usage


def names_other_model(asked: str, said: str) -> bool:
    """Whether a reply names another model than was asked for.

    A provider or a folder before the name, the ending of a file, capital letters, and a date or ``latest`` after the
    name make no other model.
    """
    one, other = sorted((_bare_name(asked), _bare_name(said)), key=len)
    if one == other or not said.strip():
        return False
    return not (other.startswith(one) and _DATED.fullmatch(other, len(one)))


def _bare_name(name: str) -> str:
    bare = re.split(r"[/\\]", name.strip().rstrip("/\\").lower())[-1]
    for ending in _ENDINGS:
        bare = bare.removesuffix(ending)
    return re.sub(r"[-:@]latest$", "", bare)
