"""The log-probabilities in a server's reply: read, checked, and matched with the text that was sent or written."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kshot.backends.server.connection import MalformedReplyError
from kshot.core.reasoning import tokens_of
from kshot.core.records import TokenLogprobs, Usage

MAX_TOKEN_CHARACTERS = 32
"""The most characters that a token may have, if a server does not show it."""
_ROUNDING_ERROR = 1e-3
"""A log-probability may lie this much above 0 by rounding."""
_HIDDEN = "\ufdd0"
"""Stands for a token that the server does not show; no text contains this character."""
_MAX_EXPANSION = 8
"""The tokens of a text show at most this many characters for each of its own: bytes are shown as ``bytes:\\xf0``."""
_MAX_STEPS = 10**7
"""How long tokens are matched with a text; a server may send some that fit in too many ways."""
_BYTES = re.compile(r"(?:bytes: ?(?:\\x[0-9a-fA-F]{2})+|<0x[0-9a-fA-F]{2}>)+")
_HEX = re.compile(r"x([0-9a-fA-F]{2})")


@dataclass(frozen=True, slots=True)
class EchoedTokens:
    """The tokens of a text that a server read, with their log-probabilities (None: the first has none).

    ``greedy``: whether each is the likeliest at its place; None where the server does not say.
    """

    texts: tuple[str, ...]
    logprobs: tuple[float | None, ...]
    greedy: tuple[bool | None, ...] = ()
    usage: Usage | None = None


# ---- which tokens belong to which text ----


def continuation_start(texts: Sequence[str], continuation: str) -> int | None:
    """Return the index of the first token that reaches into the continuation; None if the texts do not add up.

    It is counted from the end, because BOS may come first, and characters may be spread over tokens.
    """
    tail, index = "", len(texts)
    while len(tail) < len(continuation) and index:
        index -= 1
        tail = texts[index] + tail
    while index > 1 and not texts[index - 1]:  # vLLM shows the parts of a character as "", before the whole character
        index -= 1
    return index if tail.endswith(continuation) else None


def text_end(texts: Sequence[str], text: str, trailing: int) -> int:
    """Return how many tokens are those of the text: EOS may follow it, and a token that the model wrote.

    ``trailing`` is how many followed the text of the probe; it is used if characters that are spread over tokens hide
    the text.
    """
    whole = "".join(texts)
    if text not in whole:
        return len(texts) - trailing
    past, end = len(whole) - whole.rindex(text) - len(text), len(texts)
    while past > 0 and end:
        end -= 1
        past -= len(texts[end])
    return end


def covers(texts: Sequence[str], text: str, spare: int) -> bool:
    """Whether these are the tokens of the whole text, except for ``spare`` characters at its start.

    Characters that are spread over tokens appear as their bytes, or as one U+FFFD for each part. vLLM shows nothing of
    a token that ends within a character, whatever else the token contains.
    """
    if "".join(texts).endswith(text):
        return True
    whole = "".join([*texts[:1], *(each or _HIDDEN for each in texts[1:])])  # ``spare`` is for the first token
    own, wanted = _compact(_BYTES.sub(_decoded, whole))[::-1], _compact(text)[::-1]
    if len(own) > _MAX_EXPANSION * (len(wanted) + 100):
        return False
    positions, steps = [0], 0  # how much of the text, from its end, the tokens may have covered
    for piece in re.findall(f"[\ufffd{_HIDDEN}]+|[^\ufffd{_HIDDEN}]+", own):
        steps += len(positions)
        if steps > _MAX_STEPS:
            return False
        if _HIDDEN in piece:
            room = MAX_TOKEN_CHARACTERS * len(piece)
            positions = _united((at, min(at + room, len(wanted))) for at in positions)
        elif piece[0] == "\ufffd":
            positions = _united((at + 1, _foreign_end(wanted, at, len(piece))) for at in positions)
        else:
            # The piece may be longer than the rest of the text: BOS comes first.
            if any(len(wanted) - at <= len(piece) and piece.startswith(wanted[at:]) for at in positions):
                return True
            positions = [at + len(piece) for at in positions if wanted.startswith(piece, at)]
    return any(len(wanted) - at <= spare for at in positions)


def _compact(text: str) -> str:
    """Return a text without white space, in the form NFKC, because some tokenizers change these."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def _decoded(match: re.Match[str]) -> str:
    return bytes.fromhex("".join(_HEX.findall(match[0]))).decode("utf-8", "replace")


def _united(ranges: Iterable[tuple[int, int]]) -> list[int]:
    """Return the numbers of all ranges, each once; the ranges begin in ascending order."""
    found: list[int] = []
    for first, last in ranges:
        found.extend(range(max(first, found[-1] + 1) if found else first, last + 1))
    return found


_FOREIGN = re.compile(r"[^\x00-\x7f]*")


def _foreign_end(text: str, start: int, at_most: int) -> int:
    """Return where the characters from here on that are not ASCII end, or the most of them."""
    found = _FOREIGN.match(text, start, min(start + at_most, len(text)))
    return found.end() if found else start


# ---- reading replies ----


def tokens_from_echo(choice: Any) -> EchoedTokens | None:
    """Read the reply to a request with ``echo``; None if it has no log-probabilities."""
    given = choice.get("logprobs")
    if not isinstance(given, dict) or not given.get("token_logprobs"):
        return None
    tokens, logprobs = given.get("tokens"), given["token_logprobs"]
    if not isinstance(tokens, list) or not isinstance(logprobs, list):
        raise MalformedReplyError("there is no list of tokens")
    tops = given.get("top_logprobs")
    listed = tops if isinstance(tops, list) and len(tops) == len(logprobs) else [None] * len(logprobs)
    greedy = [_is_likeliest(own, top) for own, top in zip(logprobs, listed, strict=True)]
    return _checked_tokens(tokens, logprobs, greedy)


def _is_likeliest(own: Any, listed: Any) -> bool | None:
    """Whether no token of the list of likely tokens is likelier than the text's own; None if there is no list."""
    if not isinstance(listed, dict) or not listed or type(own) not in {int, float}:
        return None
    others = list(listed.values())
    return all(own >= each for each in others) if all(type(each) in {int, float} for each in others) else None


def tokens_from_prompt_logprobs(choice: Any) -> EchoedTokens | None:
    """Read the reply to a request with ``prompt_logprobs``; None if it has no log-probabilities."""
    given = choice.get("prompt_logprobs")
    if not isinstance(given, list) or not given:
        return None
    if not all(each is None or (isinstance(each, dict) and each) for each in given):
        raise MalformedReplyError("there is no list of tokens")
    own = [next(iter(each.values())) if each else {} for each in given]
    if not all(isinstance(each, dict) for each in own):
        raise MalformedReplyError("there is no list of tokens")
    texts, logprobs = [each.get("decoded_token") or "" for each in own], [each.get("logprob") for each in own]
    ranks = [each.get("rank") for each in own]
    return _checked_tokens(texts, logprobs, [rank == 1 if type(rank) is int else None for rank in ranks])


def top_logprobs(choice: Any, *, chat: bool) -> dict[str, float]:
    """Read the list of the likeliest first tokens; empty if the reply has none."""
    given = choice.get("logprobs")
    if not isinstance(given, dict):
        return {}
    if chat:
        content = given.get("content") or [{}]
        listed = content[0].get("top_logprobs") or []
        pairs = [(str(each["token"]), each["logprob"]) for each in listed]
    else:
        first = (given.get("top_logprobs") or [None])[0] or {}
        pairs = list(first.items())
    found: dict[str, float] = {}
    for token, given_logprob in pairs:
        if given_logprob == -math.inf:  # some servers list impossible tokens
            continue
        logprob = checked_logprob(given_logprob)
        found[token] = _log_sum(found[token], logprob) if token in found else logprob
    return found


def _checked_tokens(texts: Sequence[Any], values: Sequence[Any], greedy: Sequence[bool | None]) -> EchoedTokens:
    """Check tokens and their log-probabilities; the first token may have none."""
    if len(texts) != len(values):
        raise MalformedReplyError(f"{len(values)} log-probabilities of {len(texts)} tokens")
    if not all(isinstance(text, str) for text in texts):
        raise MalformedReplyError("some tokens are not texts")
    first = None if values[0] is None else checked_logprob(values[0])
    return EchoedTokens(tuple(texts), (first, *map(checked_logprob, values[1:])), tuple(greedy))


def checked_logprob(value: Any) -> float:
    """Return a log-probability; what cannot be one is an error."""
    try:
        logprob = float(value) if type(value) in {int, float} else math.nan
    except OverflowError:
        logprob = math.nan
    if not math.isfinite(logprob) or logprob > _ROUNDING_ERROR:
        raise MalformedReplyError(f"{value!r:.40} is not a log-probability")
    return logprob


def _log_sum(one: float, other: float) -> float:
    """Add two probabilities, given as logarithms: different tokens may have the same text."""
    larger = max(one, other)
    return larger + math.log1p(math.exp(min(one, other) - larger))


# ---- the tokens of a text that a server wrote or read, as far as it shows them ----

_SPELLED_BYTES = re.compile(r"(?:bytes: ?)?((?:\\x[0-9a-fA-F]{2})+)|((?:<0x[0-9a-fA-F]{2}>)+)")
"""How servers spell tokens that are parts of characters."""


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
