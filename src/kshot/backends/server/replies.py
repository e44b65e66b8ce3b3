"""What a server's JSON says: text, reasoning kept apart, why it ended, tokens. Shared by the dialects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kshot.backends.server.connection import Malformed
from kshot.backends.server.http_errors import Refused, shortened
from kshot.core.records import Failed, Generate, Generated, Prompt, Usage

_LENGTH = frozenset({"length", "max_tokens", "model_context_window_exceeded"})
_WITHHELD = frozenset({"content_filter", "refusal"})
_THINK = re.compile(r"\A\s*(?:<think(?:ing)?>)?(.*?)</think(?:ing)?>\s*", re.DOTALL)
_MOST = 10**12
"""No call takes so many tokens: a count above is none."""
_OPEN = re.compile(r"\A\s*<think(?:ing)?>", re.DOTALL)


def apart(text: str) -> tuple[str, str]:
    """The answer and the reasoning before it, where a model writes both into one text between think tags."""
    found = _THINK.match(text)
    if found:
        return text[found.end() :], found[1].strip()
    opened = _OPEN.match(text)
    return ("", text[opened.end() :].strip()) if opened else (text, "")


def cut(text: str, stop: Sequence[str]) -> tuple[str, bool]:
    """The text before the first stop string, and whether there was one: servers take few of them, or keep them."""
    ends = [at for word in stop if word and (at := text.find(word)) >= 0]
    return (text[: min(ends)], True) if ends else (text, False)


def written(
    request: Generate, text: str | None, reasoning: str, finish: str | None, usage: Usage | None, *, tool: bool = False
) -> Generated:
    """The response to a Generate; what a server withheld altogether is a Failed.

    So is a reply without any text (None; an empty one is an answer) or reasoning, and a ``tool`` called instead.
    """
    if finish in _WITHHELD and not text:
        raise Refused(Failed("content_filter", f"the server withheld the reply ({finish})"))
    if tool and not text:
        raise Refused(Failed("no_text", "the model called a tool, and wrote nothing"))
    if text is None and not reasoning:
        raise Refused(Failed("no_text", f"the server's reply holds no text (it ended by {shortened(str(finish))})"))
    text = text or ""
    text, stopped = cut(text, request.stop)
    return Generated(text, "length" if finish in _LENGTH and not stopped else "stop", usage, reasoning)


def usage_of(body: Mapping[str, Any], read: str = "prompt_tokens", wrote: str = "completion_tokens") -> Usage | None:
    """Token counts, where the server gives them and they can be true."""
    given = body.get("usage")
    if not isinstance(given, Mapping) or given.get(read) is None:
        return None
    counts = [given.get(name) for name in (read, wrote, "cache_creation_input_tokens", "cache_read_input_tokens")]
    known = [0 if count is None else count for count in counts]
    if not all(type(count) is int and 0 <= count <= _MOST for count in known):
        return None
    return Usage(known[0] + known[2] + known[3], known[1])


def texts_of(parts: Sequence[Any], kind: str = "text") -> list[str]:
    """The texts of one kind among the parts that a reply comes in."""
    own = [part.get(kind) for part in parts if isinstance(part, dict) and part.get("type") == kind]
    return [text for text in own if isinstance(text, str)]


def only_choice(body: Any) -> Mapping[str, Any]:
    """The one choice of a reply."""
    choices = body["choices"]
    if not choices:
        raise Malformed("no choices")
    first: Mapping[str, Any] = choices[0]
    return first


def estimated(prompt: Prompt, reply: float) -> float:
    """Tokens that a call will take, roughly: four characters each, and the reply."""
    size = sum(len(m.content) for m in prompt.messages) if prompt.messages else len(prompt.text)
    return size / 4 + 1 + reply


def tokens_used(found: Generated) -> float:
    """Tokens that a call did take."""
    return float(found.usage.prompt_tokens + found.usage.completion_tokens) if found.usage else 0.0


def sampled_seed(request: Generate) -> int | None:
    """A seed of its own for every replica of a sampled reply."""
    if not request.temperature:
        return None
    return ((request.seed or 0) + request.replica) % 2**31 if request.seed is not None or request.replica else None
