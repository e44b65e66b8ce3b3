"""The tokens of a text that a server wrote or read, with their log-probabilities, as far as it shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kshot.backends.server.connection import MalformedReplyError
from kshot.backends.server.token_logprobs import checked_logprob
from kshot.core.reasoning import tokens_of
from kshot.core.records import TokenLogprobs

_SPELLED_BYTES = re.compile(r"(?:bytes: ?)?((?:\\x[0-9a-fA-F]{2})+)|((?:<0x[0-9a-fA-F]{2}>)+)")
"""How servers spell tokens that are parts of characters."""
_HEX = re.compile(r"x([0-9a-fA-F]{2})")


def reply_tokens(choice: Mapping[str, Any], *, chat: bool) -> Sequence[TokenLogprobs]:
    """Return the tokens of a reply, in one or two readings; none if the server does not give them.

    They are an extra, so that what cannot be read does no harm to the reply.
    """
    given = choice.get("logprobs")
    if not isinstance(given, Mapping):
        return ()
    try:
        if chat:
            listed = [each for each in given["content"] if isinstance(each, Mapping)]
            texts, values = [each["token"] for each in listed], [each["logprob"] for each in listed]
            spelled: list[Any] = [each.get("bytes") for each in listed]
        else:
            texts, values, spelled = given["tokens"], given["token_logprobs"], []
        if not all(isinstance(text, str) for text in texts) or len(texts) != len(values):
            return ()
        numbers = [min(checked_logprob(value), 0.0) for value in values]
        whole = [bytes(each) for each in spelled] if spelled and None not in spelled else [_bytes(t) for t in texts]
    except (MalformedReplyError, LookupError, TypeError, ValueError):
        return ()
    return tuple(zip(texts, numbers, strict=True)), _characters(whole, numbers)


def read_tokens(texts: Sequence[str], values: Sequence[float], text: str) -> TokenLogprobs:
    """Return the tokens of a text that a server has read; as it shows them, where they do not add up to the text."""
    plain = tuple(zip(texts, values, strict=True))
    readings = (plain, _characters([_bytes(each) for each in texts], values))
    return tokens_in(readings, text) or plain


def tokens_in(readings: Sequence[TokenLogprobs], text: str) -> TokenLogprobs | None:
    """Return the tokens of a text that comes last in one of the readings; None if it is in none."""
    found = (tokens_of(each, text, last=True) for each in readings)
    return next((each for each in found if each is not None), None)


def _bytes(token: str) -> bytes:
    if _SPELLED_BYTES.fullmatch(token):
        return bytes.fromhex("".join(_HEX.findall(token)))
    return token.encode("utf-8", "surrogatepass")


def _characters(tokens: Sequence[bytes], values: Sequence[float]) -> TokenLogprobs:
    """Return tokens as texts; those that are parts of one character stand together, with the sum of their values."""
    found: list[tuple[str, float]] = []
    pending, total = b"", 0.0
    for token, value in zip(tokens, values, strict=True):
        pending, total = pending + token, total + value
        try:
            text = pending.decode()
        except UnicodeDecodeError:
            continue
        found.append((text, total))
        pending, total = b"", 0.0
    if pending:
        found.append((pending.decode("utf-8", "replace"), total))
    return tuple(found)
