"""Reading a server's JSON, for both APIs: text, reasoning, token counts, and log-probabilities of tokens."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kshot.backends.server.connection import MalformedReplyError
from kshot.backends.server.http_errors import RequestFailedError, shortened
from kshot.backends.server.keys import Account, Address
from kshot.backends.texts import cut_at_stop
from kshot.core.content import texts_in
from kshot.core.reasoning import ending_early, tokens_of, without_thoughts
from kshot.core.records import Failed, Generate, Generated, Prompt, TokenLogprobs, Usage

# ---- log-probabilities: read, checked, and matched with the text that was sent or written ----

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
    """Return how many of the tokens belong to the text, which EOS or a token of the reply may follow.

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


# ---- replies ----

_LENGTH_REASONS = frozenset({"length", "max_tokens"})
_WINDOW_REASONS = frozenset({"model_context_window_exceeded"})
_FILTER_REASONS = frozenset({"content_filter", "refusal", "safety", "prohibited_content", "sensitive"})
_MAX_TOKENS = 10**8
"""A token count above this is wrong: no context window is as large."""
_MEDIA_TOKENS = 1000
"""What an image or another part that is no text is taken for, until the server says how many tokens it used."""


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
