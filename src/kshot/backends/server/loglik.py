"""Log-probabilities from an OpenAI-compatible server: of a prompt's own end, or of the first token it would write."""

from __future__ import annotations

import asyncio
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from kshot.backends.server.connection import Body, Malformed, Wire
from kshot.backends.server.http_errors import Refused
from kshot.backends.server.replies import estimated, only_choice, usage_of
from kshot.backends.texts import replace_surrogates
from kshot.core.errors import BackendError
from kshot.core.records import Failed, Likelihood, Message, Prompt, Scored, Usage

_TRIAL = "The capital of France is Paris."
_TRAIL = 2
"""Tokens that may stand behind a text: EOS, and one that was written."""
_TOPS = (20, 5)
"""How many of the likeliest tokens to ask for: as many as some servers allow, else as many as all do."""
_ROUNDING = 1e-3
"""A log-probability may lie this much above 0 by rounding."""
_LONGEST = 32
"""Characters that a token may have, where a server does not show it."""
_BLANK = "\ufdd0"
"""Stands for such a token: no character that a text could have."""
_BYTES = re.compile(r"(?:bytes: ?(?:\\x[0-9a-fA-F]{2})+|<0x[0-9a-fA-F]{2}>)+")
_HEX = re.compile(r"x([0-9a-fA-F]{2})")


@dataclass(frozen=True, slots=True)
class Echoed:
    """The tokens of a text that a server read, with their log-probabilities (None: given, not predicted)."""

    texts: tuple[str, ...]
    logprobs: tuple[float | None, ...]
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """One way of asking for the log-probabilities of a prompt."""

    name: str
    extra: tuple[tuple[str, Any], ...]


WAYS = (
    Way("echo", (("echo", True), ("logprobs", 1), ("max_tokens", 0))),
    Way("echo", (("echo", True), ("logprobs", 1), ("max_tokens", 1))),
    Way("prompt_logprobs", (("prompt_logprobs", 0), ("max_tokens", 1))),
)


class Scores:
    """What a server offers of log-probabilities, found out by asking it once, and asked for that way."""

    def __init__(self, model: str, where: str) -> None:
        self._model, self._where = model, where
        self._way: Way | None = None
        self._looked: asyncio.Lock | None = None
        self._known = False
        self._trail = 0
        self._first_left_out = False
        self._tops: dict[bool, int] = {}

    # ---- the prompt's own ----

    async def way(self, wire: Wire) -> Way | None:
        """Find out how the server gives the log-probabilities of a prompt, if it does."""
        self._looked = self._looked or asyncio.Lock()
        async with self._looked:
            if not self._known:
                self._way = await self._probe(wire)
                self._known = True
        return self._way

    async def _probe(self, wire: Wire) -> Way | None:
        for way in WAYS:
            try:
                found = await self._echo(wire, way, _TRIAL, probing=True)
            except (Refused, _Lacking):
                continue
            except BackendError as exc:
                if "says 404" in exc.what:  # it has no completions at all
                    return None
                raise
            for trail in range(_TRAIL + 1):
                texts = found.texts[: len(found.texts) - trail]
                whole = "".join(texts)  # the first token may be left out, and there may be one before it
                short = not whole.endswith(_TRIAL)
                known = not short or (_TRIAL.endswith(whole) and len(whole) > len(_TRIAL) / 2)
                if known and len(texts) > 1:
                    self._trail, self._first_left_out = trail, short
                    return way
        return None

    async def weigh(self, wire: Wire, prompt: Prompt, continuations: Sequence[str]) -> Scored:
        """Sum the log-probabilities of each continuation's tokens after the prompt."""
        if prompt.messages:
            raise self._unable("gives no log-probabilities of a conversation")
        way = await self.way(wire)
        if way is None:
            raise self._unable("gives no log-probabilities of a prompt")
        found, used = [], []
        for text in map(replace_surrogates, continuations):
            if not text:
                raise BackendError("an empty continuation has no probability", where=self._where)
            whole = await self._echo(wire, way, prompt.text + text)
            start = _start(whole.texts, text)
            if start is None:
                alone = await self._echo(wire, way, prompt.text) if prompt.text else Echoed((), ())
                pairs = zip(whole.texts, alone.texts, strict=False)
                start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            found.append(self._summed(whole, start, prompt.text, text))
            used.append(whole.usage)
        return Scored(tuple(found), _total(used))

    def _summed(self, whole: Echoed, start: int, context: str, text: str) -> Likelihood:
        own = [min(p, 0.0) for p in whole.logprobs[start:] if p is not None]  # None: the text's very first
        if not own:
            short = f"{text[:60]!r} after {context[-60:]!r}"
            what = f"no token of the continuation can be scored: {short}"
            if context:  # the server reads both as one token, or says so
                raise Refused(Failed("bad_logprobs", what))
            raise BackendError(what, where=self._where)
        return Likelihood(math.fsum(own), len(own))

    async def _echo(self, wire: Wire, way: Way, text: str, *, probing: bool = False) -> Echoed:
        body = {"model": self._model, "prompt": text, "temperature": 0, **dict(way.extra)}

        def read(reply: Any) -> Echoed:
            choice = only_choice(reply)
            with _judging(probing=probing):
                found = (_from_echo if way.name == "echo" else _from_prompt)(choice)
                if found is None:
                    raise _Lacking  # it answered, and left them out
                kept = len(found[0]) if probing else _end(found[0], text, self._trail)
                echoed = Echoed(found[0][:kept], found[1][:kept], usage_of(reply))
                if not probing and not _covers(echoed.texts, text, _LONGEST if self._first_left_out else 0):
                    raise Malformed("the tokens are not those of the text")
            return echoed

        return await wire.post(
            "/completions", lambda: body, read, tokens=estimated(Prompt(text), 1), used=_used, probing=probing
        )

    def _unable(self, what: str) -> BackendError:
        return BackendError(
            f"the server {what}",
            where=self._where,
            hint="Use --ranking-type auto (what the server offers) or generation.",
        )

    # ---- the first token's ----

    async def lists(self, wire: Wire, *, chat: bool) -> int:
        """How many of the likeliest first tokens the server lists; 0 where it lists none."""
        if chat not in self._tops:
            self._tops[chat] = await self._longest_list(wire, chat=chat)
        return self._tops[chat]

    async def _longest_list(self, wire: Wire, *, chat: bool) -> int:
        trial = Prompt(messages=(Message("user", "Answer with one letter."),)) if chat else Prompt(_TRIAL)
        for count in _TOPS:
            try:
                await self._listed(wire, trial, count, probing=True)
            except (Refused, _Lacking):
                continue
            except BackendError as exc:
                if "says 404" in exc.what:
                    return 0
                raise
            return count
        return 0

    async def first_token(self, wire: Wire, prompt: Prompt, continuations: Sequence[str]) -> Scored:
        """The log-probability of each continuation as the first token, or a bound where it is not listed.

        What is not listed is less likely than the least listed, and all of it together than what the list leaves over;
        the bound is 1 nat under the lower of these, the same for all.
        """
        count = await self.lists(wire, chat=bool(prompt.messages))
        if not count:
            raise self._unable("lists no likely first tokens")
        tops, usage = await self._listed(wire, prompt, count)
        left = 1.0 - math.fsum(map(math.exp, tops.values()))
        bound = min(*tops.values(), math.log(max(left, 1e-9)), 0.0) - 1.0
        return Scored(tuple(Likelihood(min(tops.get(text, bound), 0.0), 1) for text in continuations), usage)

    async def _listed(
        self, wire: Wire, prompt: Prompt, count: int, *, probing: bool = False
    ) -> tuple[dict[str, float], Usage | None]:
        body: Body = {"model": self._model, "max_tokens": 1, "temperature": 0}
        if prompt.messages:
            body["messages"] = [{"role": m.role, "content": replace_surrogates(m.content)} for m in prompt.messages]
            body |= {"logprobs": True, "top_logprobs": count}
        else:
            body |= {"prompt": prompt.text, "logprobs": count}

        def read(reply: Any) -> tuple[dict[str, float], Usage | None]:
            choice = only_choice(reply)
            with _judging(probing=probing):
                found = _tops(choice, chat=bool(prompt.messages))
                if not found:
                    raise _Lacking
            return found, usage_of(reply)

        path = "/chat/completions" if prompt.messages else "/completions"
        return await wire.post(
            path,
            lambda: body,
            read,
            tokens=estimated(prompt, 1),
            used=lambda got: _count(got[1]),
            probing=probing,
        )


class _Lacking(Exception):  # noqa: N818 - said of a reply
    """The server answered, without what was asked for."""


@contextmanager
def _judging(*, probing: bool) -> Iterator[None]:
    """What cannot be log-probabilities is this request's failure; to a probe, it is not having them."""
    try:
        yield
    except _Lacking:
        if probing:
            raise  # asking again would not help
        raise Malformed("no log-probabilities") from None
    except Malformed as exc:
        if probing:
            raise _Lacking from None
        raise Refused(Failed("bad_logprobs", f"the server's log-probabilities cannot be used: {exc}")) from None


def _start(texts: Sequence[str], continuation: str) -> int | None:
    """The first token that reaches into the continuation, counted from the end; None where the texts do not add up.

    From the end, because in front there may be BOS, and characters that are spread over tokens.
    """
    tail, index = "", len(texts)
    while len(tail) < len(continuation) and index:
        index -= 1
        tail = texts[index] + tail
    while index > 1 and not texts[index - 1]:  # vLLM shows parts of a character as nothing, before the whole
        index -= 1
    return index if tail.endswith(continuation) else None


def _end(texts: Sequence[str], text: str, trail: int) -> int:
    """How many tokens are the text's: some tokenizers put EOS behind it, and a token may have been written after it.

    ``trail`` is how many there were behind the trial; it holds where characters spread over tokens hide the text.
    """
    whole = "".join(texts)
    if text not in whole:
        return len(texts) - trail
    past, end = len(whole) - whole.rindex(text) - len(text), len(texts)
    while past > 0 and end:
        end -= 1
        past -= len(texts[end])
    return end


def _covers(texts: Sequence[str], text: str, spare: int) -> bool:
    """Whether these are the tokens of the whole text, but for ``spare`` characters at its start.

    Characters that are spread over tokens read as their bytes, or as a U+FFFD for each part; and vLLM shows nothing at
    all of a token that ends within a character, whatever else is in it.
    """
    if "".join(texts).endswith(text):
        return True
    whole = "".join([*texts[:1], *(each or _BLANK for each in texts[1:])])  # the first is ``spare``'s affair
    own, wanted = _solid(_BYTES.sub(_decoded, whole))[::-1], _solid(text)[::-1]
    places = {0}  # how much of the text, from its end, the tokens may have come to
    for piece in re.findall(f"[\ufffd{_BLANK}]+|[^\ufffd{_BLANK}]+", own):
        if _BLANK in piece:
            room = _LONGEST * len(piece)
            places = {end for at in places for end in range(at, min(at + room, len(wanted)) + 1)}
        elif piece[0] == "\ufffd":
            steps = [(at, at + n) for at in places for n in range(1, len(piece) + 1)]
            places = {end for at, end in steps if end <= len(wanted) and not _any_ascii(wanted[at:end])}
        else:
            if any(len(wanted) - at <= len(piece) and piece.startswith(wanted[at:]) for at in places):  # BOS in front
                return True
            places = {at + len(piece) for at in places if wanted.startswith(piece, at)}
    return any(len(wanted) - at <= spare for at in places)


def _solid(text: str) -> str:
    """A text without white space, in the form NFKC: some tokenizers change these."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def _decoded(spelt: re.Match[str]) -> str:
    return bytes.fromhex("".join(_HEX.findall(spelt[0]))).decode("utf-8", "replace")


def _any_ascii(text: str) -> bool:
    return any(each.isascii() for each in text)


def _checked(value: Any) -> float:
    """A log-probability that a server gave."""
    try:
        found = float(value) if type(value) in {int, float} else math.nan
    except OverflowError:
        found = math.nan
    if not math.isfinite(found) or found > _ROUNDING:
        raise Malformed(f"{value!r:.40} is not a log-probability")
    return found


def _checked_all(texts: Sequence[Any], values: Sequence[Any]) -> _Tokens:
    """Tokens with their log-probabilities, each of them but perhaps the first."""
    if len(texts) != len(values):
        raise Malformed(f"{len(values)} log-probabilities of {len(texts)} tokens")
    if not all(isinstance(text, str) for text in texts):
        raise Malformed("there are tokens that are not texts")
    first = None if values[0] is None else _checked(values[0])
    return tuple(texts), (first, *map(_checked, values[1:]))


_Tokens = tuple[tuple[str, ...], tuple[float | None, ...]]


def _from_echo(choice: Any) -> _Tokens | None:
    given = choice.get("logprobs")
    if not isinstance(given, dict) or not given.get("token_logprobs"):
        return None
    tokens, logprobs = given.get("tokens"), given["token_logprobs"]
    if not isinstance(tokens, list) or not isinstance(logprobs, list):
        raise Malformed("there is no list of tokens")
    return _checked_all(tokens, logprobs)


def _from_prompt(choice: Any) -> _Tokens | None:
    given = choice.get("prompt_logprobs")
    if not isinstance(given, list) or not given:
        return None
    if not all(each is None or (isinstance(each, dict) and each) for each in given):
        raise Malformed("there is no list of tokens")
    own = [next(iter(each.values())) if each else {} for each in given]
    if not all(isinstance(each, dict) for each in own):
        raise Malformed("there is no list of tokens")
    return _checked_all([each.get("decoded_token") or "" for each in own], [each.get("logprob") for each in own])


def _tops(choice: Any, *, chat: bool) -> dict[str, float]:
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
        if given_logprob == -math.inf:  # listed, and impossible
            continue
        logprob = _checked(given_logprob)
        found[token] = _either(found[token], logprob) if token in found else logprob
    return found


def _either(one: float, other: float) -> float:
    """Two tokens may read the same: together they are as likely as both."""
    most = max(one, other)
    return most + math.log1p(math.exp(min(one, other) - most))


def _total(used: Sequence[Usage | None]) -> Usage | None:
    known = [usage for usage in used if usage is not None]
    if not known:
        return None
    return Usage(sum(u.prompt_tokens for u in known), sum(u.completion_tokens for u in known))


def _count(usage: Usage | None) -> float:
    return float(usage.prompt_tokens + usage.completion_tokens) if usage else 0.0


def _used(echoed: Echoed) -> float:
    return _count(echoed.usage)
