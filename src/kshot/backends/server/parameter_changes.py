"""Parameters of a server's API: those that kshot does not know (``--request-option``), and those that it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kshot.backends.server.http_errors import HttpReply
from kshot.core.errors import UsageError

if TYPE_CHECKING:  # it brings asyncio along, which the check of options does not need
    from kshot.backends.server.connection import Body

_KSHOT_OPTIONS = {
    "max_tokens": "--max-tokens",
    "max_completion_tokens": "--max-tokens",
    "temperature": "--temperature",
    "top_p": "--top-p",
    "top_k": "--top-k",
    "stop": "--stop",
    "stop_sequences": "--stop",
    "seed": "--seed",
    "system": "--system-prompt",
    "logprobs": "--token-logprobs, which keeps the log-probability of each token",
    "top_logprobs": "--token-logprobs, which keeps the log-probability of each token",
}
"""Parameters that kshot sends itself, and the options that set them."""
_RESERVED = frozenset(
    {"model", "messages", "prompt", "stream", "stream_options", "n", "best_of", "echo", "prompt_logprobs"}
)
_MAX_DEPTH = 50


def read_request_options(texts: Iterable[str], where: str) -> dict[str, Any]:
    """Read ``KEY=JSON``; a dot in the key goes one level deeper. A plain word is a text: ``reasoning_effort=high``."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, written = text.partition("=")
        path = [part.strip() for part in key.split(".")]
        if not equals or not all(path) or len(path) > _MAX_DEPTH:
            raise _wrong(f"is {text!r:.60}", where)
        _check_name(path[0], where)
        _put(found, path, _value(written.strip(), key, where), where)
    return found


def _check_name(name: str, where: str) -> None:
    if name == "extra_body":
        hint = "Give its keys themselves: --request-option top_n=5. Every key goes into the body."
        raise UsageError("--request-option extra_body is a notion of OpenAI's Python client", where=where, hint=hint)
    if name in _KSHOT_OPTIONS:
        raise UsageError(f"--request-option cannot set {name}", where=where, hint=f"Use {_KSHOT_OPTIONS[name]}.")
    if name in _RESERVED:
        raise UsageError(f"--request-option cannot set {name}", where=where, hint="kshot sets it itself.")


def _value(written: str, key: str, where: str) -> Any:
    try:
        value = json.loads(written)
        json.dumps(value, allow_nan=False)  # what cannot be written cannot be sent
    except (ValueError, RecursionError):
        if not written or written[0] in '{["' or _is_number(written):
            raise _wrong(f"{key} is {written!r:.60}, which is not JSON", where) from None
        return written
    return value


def _is_number(text: str) -> bool:
    """Whether Python reads a number where JSON has none: ``NaN``, ``1e999``."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _put(found: dict[str, Any], path: list[str], value: Any, where: str) -> None:
    *outer, last = path
    level: Any = found
    for name in outer:
        level = level.setdefault(name, {}) if isinstance(level, dict) else None
    if not isinstance(level, dict) or last in level:
        raise UsageError(f"--request-option gives {'.'.join(path)} twice", where=where)
    level[last] = value


def _wrong(what: str, where: str) -> UsageError:
    hint = "Write KEY=JSON, such as reasoning_effort=high or chat_template_kwargs.enable_thinking=false."
    return UsageError(f"--request-option {what}", where=where, hint=hint)


# ---- parameters that a server refuses: they are left out or sent under another name ----

_DROPPABLE = ("temperature", "top_p", "seed", "stop")
_NEW_NAME = "max_completion_tokens"
_REFUSAL = (
    r"(?:unsupported|not support|unrecogni[sz]ed|unknown|unexpected|only the default|extra|deprecated"
    r"|not (?:permitted|allowed))"
)
_REFUSAL_OF_NAMED = re.compile(rf"(?i){_REFUSAL}|instead")
_QUOTE = "['\"`‘’“”]"


@dataclass(slots=True)
class ParameterChanges:
    """The parameters that are left out or sent under another name, because the server refused them."""

    dropped: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return what a later call needs to know."""
        return {"dropped": sorted(self.dropped), "renamed": dict(self.renamed)}

    def add_recorded(self, recorded: Mapping[str, Any]) -> None:
        """Take what an earlier call has found out; only what this version would find out itself."""
        self.dropped |= {name for name in recorded.get("dropped") or () if name in _DROPPABLE}
        self.renamed |= {"max_tokens": _NEW_NAME} if "max_tokens" in (recorded.get("renamed") or {}) else {}


# Which parameter a server refuses is often only in the words of its error message. These words are the server's own,
# and there is no other source, so the two functions below have to read them.


def adapt(changes: ParameterChanges, body: Body, reply: HttpReply) -> bool:
    """Drop or rename the parameter that the server refuses; return whether there is one.

    Newer models know ``max_tokens`` by another name, and accept only the default of some other parameters.
    """
    if reply.status not in {400, 422}:
        return False
    for name in ("max_tokens", *_DROPPABLE):
        if name not in body or not _refuses(reply, name):
            continue
        if name == "max_tokens":
            changes.renamed[name] = _NEW_NAME
        else:
            changes.dropped.add(name)
        return True
    return False


def _refuses(reply: HttpReply, name: str) -> bool:
    """Whether the server refuses this parameter, and not its value, nor a prompt that contains its name."""
    error = reply.error
    coded = error.code.startswith("unsupported") or error.code == "unknown_parameter"
    if error.parameter:
        return error.parameter == name and bool(coded or _REFUSAL_OF_NAMED.search(error.message))
    if coded:
        return re.search(rf"\b{name}\b", error.message) is not None
    quoted, between = f"{_QUOTE}{name}{_QUOTE}", r"[^.;]{0,60}?"
    forms = (
        rf"{_REFUSAL}{between}{quoted}",
        rf"{quoted}{between}{_REFUSAL}",
        rf"{_REFUSAL}[\w ]{{0,40}}: {name}\b",
        rf"^{name}: {_REFUSAL}",
    )
    return re.search(f"(?i){'|'.join(forms)}", error.message) is not None
