"""``--request-option KEY=JSON``: parameters of a server's API that kshot itself does not know."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, NoReturn

from kshot.core.errors import UsageError

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
        value = json.loads(written, parse_constant=_refuse_constant, parse_float=_finite)
        json.dumps(value)  # what cannot be written cannot be sent
    except (ValueError, RecursionError):
        if not written or written[0] in '{["' or _is_number(written):
            raise _wrong(f"{key} is {written!r:.60}, which is not JSON", where) from None
        return written
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
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
