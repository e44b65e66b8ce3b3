"""Requests and responses as JSON, their content addresses, and the lines of a journal.

A line of a journal is a JSON object that ends in ``"v":2,"sum":"…"``. The checksum covers every byte before ``,"sum"``,
so that a damaged line is found and never used. Journals of earlier versions have neither field; their lines may only
stand before the first line that has a checksum.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

from kshot.core.content import content_identity
from kshot.core.errors import RunError
from kshot.core.records import (
    MOST_TOKENS,
    Failed,
    Generate,
    Generated,
    Hit,
    Likelihood,
    Loglik,
    Prompt,
    Ranking,
    Request,
    Response,
    Scored,
    Search,
    TokenLogprobs,
    Usage,
)

# ---- Content addresses ----


def _prompt_body(prompt: Prompt) -> Any:
    rules = [] if prompt.rules == "kshot" else [prompt.rules]
    if not prompt.messages:
        return [prompt.text, *rules] if rules else prompt.text
    messages: list[Any] = [[m.role, content_identity(m.content)] for m in prompt.messages]
    return [*messages, *(["opened"] if prompt.opened else []), *rules]


def request_body(request: Request) -> list[Any]:
    """Return the request as plain JSON values; its digest and replay files are made from them."""
    match request:
        case Generate():
            sampling = {
                name: value for name in _SAMPLING if (value := getattr(request, name)) is not None and value != ()
            }
            sampling |= {"token_logprobs": True} if request.token_logprobs else {}
            return ["Generate", request.role, _prompt_body(request.prompt), sampling]
        case Loglik():
            asked = ["Loglik", request.role, _prompt_body(request.prompt), list(request.continuations)]
            asked += ["listed"] if request.listed else []
            asked += ["spaced"] if request.spaced else []
            asked += ["token_logprobs"] if request.token_logprobs else []
            return [*asked, "rolling", request.rolling] if request.rolling else asked
        case Search():
            where = [list(pair) for pair in request.where]
            return ["Search", request.role, request.query, request.k, where, request.topic]


_SAMPLING = (
    "max_tokens",
    "temperature",
    "stop",
    "top_p",
    "top_k",
    "repetition_penalty",
    "no_repeat_ngram_size",
    "seed",
    "replica",
)


_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def digest(request: Request) -> str:
    """Return the hash of a request; it does not depend on the model that answers."""
    body = _encoded(request_body(request))
    return hashlib.blake2b(body.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def sampling_digest(request: Generate) -> str:
    """Return the hash that seeds a sampled reply: the same whether the log-probabilities of its tokens are asked."""
    return digest(replace(request, token_logprobs=False) if request.token_logprobs else request)


def key(fingerprint: str, asked: str) -> str:
    """Return the key of a response: the hash of the request's digest and the model's fingerprint."""
    return hashlib.blake2b(f"{fingerprint}\0{asked}".encode(), digest_size=16).hexdigest()


# ---- Responses to and from JSON ----


def response_to_json(response: Response) -> dict[str, Any]:
    """Return a response as one JSON object; ``response_from_json`` is the inverse."""
    match response:
        case Generated(text, stop_reason, usage, reasoning, cut_tokens, token_logprobs, whole):
            body: dict[str, Any] = {"text": text, "stop_reason": stop_reason}
            more = {"reasoning": reasoning, "cut_tokens": cut_tokens, "whole": _around(reasoning, text, whole)}
            told: dict[str, Any] = {} if token_logprobs is None else {"token_logprobs": token_list(token_logprobs)}
            return body | _usage_to_json(usage) | {name: value for name, value in more.items() if value} | told
        case Scored(likelihoods, usage, cut_tokens):
            scored = [
                [item.logprob, item.tokens, *([] if item.greedy is None else [item.greedy])] for item in likelihoods
            ]
            tokens = [item.token_logprobs for item in likelihoods]
            by_text = [None if each is None else token_list(each) for each in tokens]
            told = {} if all(each is None for each in by_text) else {"token_logprobs": by_text}
            cut = {"cut_tokens": cut_tokens} if cut_tokens else {}
            return {"scored": scored} | _usage_to_json(usage) | cut | told
        case Ranking(hits):
            return {"hits": [[hit.id, hit.score, hit.text] for hit in hits]}
        case Failed(kind, message, retryable):
            return {"failed": kind, "message": message, "retryable": retryable}


def _around(reasoning: str, text: str, whole: str) -> str | list[str]:
    """Return a whole reply without its reasoning and text: what is before and after the reasoning, if that is all."""
    if not reasoning or reasoning not in whole:
        return whole
    before, _, after = whole.partition(reasoning)
    after = after.removesuffix(text)
    return [before, after] if whole == before + reasoning + after + text else whole


def _whole(body: Mapping[str, Any], reasoning: str, text: str) -> str:
    given = body.get("whole", "")
    before, after = _all(given, _is_text, of=2) if _is_list(given) else (_only(given, _is_text), "")
    return f"{before}{reasoning}{after}{text}" if _is_list(given) else before


def token_list(tokens: TokenLogprobs) -> list[list[Any]]:
    """Return tokens with their log-probabilities as lines of the journal and of samples have them."""
    return [list(pair) for pair in tokens]


def _usage_to_json(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    cached = [usage.cached_tokens] if usage.cached_tokens else []
    return {"usage": [usage.prompt_tokens, usage.completion_tokens, *cached]}


def _usage(counts: Any) -> Usage:
    read, wrote, *cached = _all(counts, _is_count)
    return Usage(read, wrote, *_all(cached, _is_count, of=1 if cached else 0))


def response_from_json(body: Mapping[str, Any]) -> Response:
    """Return the response that a journal line holds; a value that no response can have is a ``ValueError``."""
    usage = _usage(body["usage"]) if "usage" in body else None
    cut_tokens = _only(body.get("cut_tokens", 0), _is_count)
    if "text" in body:
        reason = body.get("stop_reason", body.get("finish", "stop"))  # journals of 0.1 say "finish"
        texts = _all([body["text"], reason, body.get("reasoning", "")], _is_text)
        tokens = token_logprobs_from_json(body.get("token_logprobs"))
        return Generated(texts[0], texts[1], usage, texts[2], cut_tokens, tokens, _whole(body, texts[2], texts[0]))
    if "scored" in body:
        found = [_likelihood(*each) for each in _all(body["scored"], _is_list)]
        if "token_logprobs" in body:
            by_text = _all(body["token_logprobs"], lambda each: each is None or _is_list(each), of=len(found))
            found = [
                replace(each, token_logprobs=token_logprobs_from_json(tokens))
                for each, tokens in zip(found, by_text, strict=True)
            ]
        return Scored(tuple(found), usage, cut_tokens)
    if "hits" in body:
        return Ranking(tuple(_hit(*hit) for hit in _all(body["hits"], _is_list)))
    kind, message = _all([body["failed"], body["message"]], _is_text)
    return Failed(kind, message, _only(body.get("retryable", False), _is_bool))


def token_logprobs_from_json(found: Any) -> TokenLogprobs | None:
    """Return the tokens of a text as they are stored; anything else is a ``ValueError``."""
    if found is None:
        return None
    pairs = [_all(pair, lambda _: True, of=2) for pair in _all(found, _is_list)]
    return tuple((_only(text, _is_text), _only(value, _is_finite)) for text, value in pairs)


def _likelihood(logprob: float, tokens: int, greedy: bool | None = None) -> Likelihood:  # noqa: FBT001 - as stored
    # Journals of earlier versions have no third number: they do not say whether a continuation is greedy.
    return Likelihood(
        _only(logprob, lambda value: _is_number(value) and value < math.inf),  # NaN is not below it either
        _only(tokens, _is_count),
        None if greedy is None else _only(greedy, _is_bool),
    )


def _hit(identifier: str, score: float, text: str = "") -> Hit:
    return Hit(_only(identifier, _is_text), _only(score, _is_finite), _only(text, _is_text))


def _only(value: Any, fits: Callable[[Any], bool]) -> Any:
    if not fits(value):
        raise ValueError(f"{value!r:.60} is no such value")
    return value


def _all(values: Any, fits: Callable[[Any], bool], *, of: int | None = None) -> list[Any]:
    if not isinstance(values, list) or not all(map(fits, values)) or len(values) != (len(values) if of is None else of):
        raise ValueError(f"{values!r:.60} is no list of such values")
    return values


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) <= MOST_TOKENS)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MOST_TOKENS


# ---- the lines of a journal ----

FORMAT = 2
"""The newest form of journals and of ``spec.json`` that this version reads, and the one that it writes."""

_BOM = b"\xef\xbb\xbf"
_KEY = re.compile(r"[0-9a-f]{32}")
_ENDING = re.compile(rb',"v":(\d{1,9}),"sum":"([0-9a-f]{16})"\}')
_ENDING_BYTES = len(b',"v":000000000,"sum":"0123456789abcdef"}')
_EARLY_FIELDS = {"key", "asked", "response"}
_ascii_encoded = json.JSONEncoder(separators=(",", ":")).encode


class JournalRecord(NamedTuple):
    """One response, under the key of its request; ``asked`` is the digest of the request, without the model."""

    key: str
    asked: str
    response: Response
    has_checksum: bool

    @property
    def failed(self) -> bool:
        """Whether it holds no answer."""
        return isinstance(self.response, Failed)


class JournalLine(NamedTuple):
    """A line of a journal: where it stands, its bytes, and its record; None if the line is damaged."""

    number: int
    offset: int
    raw: bytes
    record: JournalRecord | None


def encoded_line(key: str, asked: str, response: Response) -> bytes:
    """Return the line of a response, with its checksum."""
    body = _ascii_encoded({"key": key, "asked": asked, "response": response_to_json(response), "v": FORMAT}).encode()[
        :-1
    ]
    return b'%b,"sum":"%b"}\n' % (body, _checksum(body))


def decoded_line(line: bytes, *, early: bool) -> JournalRecord | None:
    """Return the record of a line, or None if the line is damaged; ``early``: a line without a checksum is a record.

    A byte order mark before a line and a carriage return after it, which editors and version control add, do no harm.
    """
    line = line.removeprefix(_BOM).rstrip(b"\r\n")
    ending = _ENDING.search(line, max(0, len(line) - _ENDING_BYTES))
    whole = ending is not None and ending.end() == len(line) and _checksum(line[: ending.end(1)]) == ending[2]
    if not whole and not early and b'"v":' not in line:
        return None
    try:
        row = json.loads(line)
        version = row.get("v", 1)
        if type(version) is int and version > FORMAT and not _is_ours(line, ending):
            raise NewerLine(version)
        # A line without a checksum, but with other fields, had one, which is damaged.
        if not (whole and version == FORMAT) and not (early and row.keys() <= _EARLY_FIELDS):
            return None
        asked = row.get("asked", "")
        if not isinstance(asked, str) or not _KEY.fullmatch(row["key"]):
            return None
        return JournalRecord(row["key"], asked, response_from_json(row["response"]), whole)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _is_ours(line: bytes, ending: re.Match[bytes] | None) -> bool:
    """Whether a line that seems to have a newer format is one of ours, in which this very number is damaged."""
    if ending is None:
        return False
    return _checksum(b"%b%d" % (line[: ending.start(1)], FORMAT)) == ending[2]


class NewerLine(Exception):  # noqa: N818 - it names what was found
    """A line that a newer version of kshot has written."""


def journal_lines(file: Iterable[bytes], where: str, *, end: int | None = None) -> Iterator[JournalLine]:
    """Yield the lines of a journal up to the offset ``end``; empty lines are left out."""
    offset, early = 0, True
    for number, line in enumerate(file, start=1):
        if end is not None and offset >= end:
            return
        if line.strip():
            try:
                record = decoded_line(line, early=early)
            except NewerLine as exc:
                raise newer_version(f"{where}:{number}", exc.args[0]) from None
            early = early and not (record is not None and record.has_checksum)
            yield JournalLine(number, offset, line, record)
        offset += len(line)


def newer_version(where: str, found: int) -> RunError:
    """Return the error for a file that a newer version of kshot has written."""
    return RunError(
        f"a newer version of kshot wrote this (format {found}; this version reads up to {FORMAT})",
        where=where,
        hint="Use that version, or choose another folder with --out.",
    )


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=8).hexdigest().encode()


_MAX_NAMED = 5
"""Damaged lines that a note names."""


def damage_note(where: str, damaged: list[tuple[int, int]], then: str) -> str:
    """Return the note on damaged lines, which are given by number and offset; ``then`` has {they} and {are}."""
    named = ", ".join(f"{number} at byte {offset:,}" for number, offset in damaged[:_MAX_NAMED])
    more = ", …" if len(damaged) > _MAX_NAMED else ""
    one = len(damaged) == 1
    words = {"they": "it", "are": "is"} if one else {"they": "they", "are": "are"}
    lines = "1 line is" if one else f"{len(damaged):,} lines are"
    return f"{where}: {lines} damaged ({named}{more}); {then.format(**words)}"
