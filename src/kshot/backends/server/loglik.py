"""Log-probabilities from an OpenAI-compatible server: of the end of a prompt, or of the first token of a reply."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from kshot.backends.server.connection import Body, Connection, MalformedReplyError, ServerGroup
from kshot.backends.server.http_errors import (
    NOT_FOUND,
    HttpStatusError,
    RequestFailedError,
    UnreachableError,
    UnsentError,
)
from kshot.backends.server.message_parts import openai_messages
from kshot.backends.server.replies import (
    MAX_TOKEN_CHARACTERS,
    EchoedTokens,
    continuation_start,
    covers,
    estimated_tokens,
    only_choice,
    read_tokens,
    text_end,
    tokens_from_echo,
    tokens_from_prompt_logprobs,
    top_logprobs,
    usage_from,
    used_tokens,
)
from kshot.backends.texts import common_length, replace_surrogates, unscorable
from kshot.core.errors import BackendError
from kshot.core.records import Failed, Likelihood, Message, Prompt, RollingStart, Scored, Usage

# ---- what several servers must offer alike: each is asked before its first request of a kind ----


class Agreement:
    """The servers that offer something in the same way as the first one that was asked."""

    def __init__(self, what: str) -> None:
        """Say what they must offer alike."""
        self._what = what
        self._first: Connection | None = None
        self._alike: set[Connection] = set()
        self._locks: dict[Connection, asyncio.Lock] = {}
        self._failures: dict[Connection, tuple[float, Exception]] = {}

    async def first_offer(self, group: ServerGroup, probe: Callable[[Connection], Awaitable[T | None]]) -> T | None:
        """Ask one server after the other what it offers, until one does; servers that are not there are left out."""
        missing: UnreachableError | None = None
        there = False
        for connection in group.connections:
            try:
                found = await probe(connection)
            except UnreachableError as exc:
                missing = exc
                continue
            there = True
            if found:
                self._first = connection
                self._alike = {connection}
                return found
        if missing is not None and not there:
            raise missing
        return None

    async def check(self, connection: Connection, is_alike: Callable[[], Awaitable[bool]]) -> None:
        """Refuse a server that offers something else than the first one; a check that fails is the failure of a try."""
        if connection in self._alike:
            return
        now = asyncio.get_running_loop().time
        began = now()
        async with self._locks.setdefault(connection, asyncio.Lock()):
            at, failure = self._failures.get(connection, (began - 1, None))
            if failure is not None and at >= began:  # the check that this call has waited for
                raise failure
            if connection in self._alike:
                return
            try:
                alike = await is_alike()
            except Exception as exc:
                self._failures[connection] = now(), exc
                raise
            if not alike:
                other = "" if self._first is None else f" as {self._first.address.url} does"
                raise BackendError(
                    f"the servers differ: it does not give {self._what}{other}",
                    where=connection.address.where,
                    hint="Name servers that run the same software with the same model, or leave this one out.",
                )
            self._alike.add(connection)


T = TypeVar("T")

_PROBE_TEXT = "The capital of France is Paris."
_MAX_TRAILING_TOKENS = 2
"""Tokens that may follow a text: EOS, and one that the model wrote."""
_RANKING_HINT = "Use --ranking-type auto (what the server offers) or generation; of configs, one that generates."
_LIST_LENGTHS = (20, 5)
"""How many of the likeliest tokens to ask for: as many as some servers allow, then as many as all do."""


@dataclass(frozen=True, slots=True)
class LogprobApi:
    """One way in which servers give the log-probabilities of a prompt: the parameters, and how to read the reply."""

    name: str
    parameters: tuple[tuple[str, Any], ...]
    read: Callable[[Any], EchoedTokens | None]


LOGPROB_APIS = (
    LogprobApi("echo", (("echo", True), ("logprobs", 1), ("max_tokens", 0)), tokens_from_echo),
    LogprobApi("echo", (("echo", True), ("logprobs", 1), ("max_tokens", 1)), tokens_from_echo),
    LogprobApi("prompt_logprobs", (("prompt_logprobs", 0), ("max_tokens", 1)), tokens_from_prompt_logprobs),
)


_Post = Callable[..., Awaitable[Any]]
"""``ServerGroup.post``, with some of its arguments."""


class ServerLogprobs:
    """The log-probabilities that a server offers. It is asked once which it offers, and then asked in that way."""

    def __init__(self, model: str, where: str, extra: Body | None = None) -> None:
        """Take the model's name, how messages name the server, and parameters to add to each request."""
        self._model, self._where, self._extra = model, where, extra or {}
        self._prompt_api: LogprobApi | None = None
        self._probed = False
        self._trailing_tokens = 0
        self._first_token_missing = False
        self._list_lengths: dict[bool, int] = {}
        self._prompt_agreement = Agreement("log-probabilities of a prompt")
        self._list_agreements = {chat: Agreement("the likeliest first tokens") for chat in (False, True)}

    # ---- log-probabilities of a prompt ----

    async def prompt_api(self, group: ServerGroup) -> LogprobApi | None:
        """Return the way in which the servers give the log-probabilities of a prompt; None if they do not."""
        async with group.probe_lock:
            if not self._probed:
                probe = partial(self._probe, group)
                self._prompt_api = await self._prompt_agreement.first_offer(group, probe)
                self._probed = True
        return self._prompt_api

    async def _probe(self, group: ServerGroup, connection: Connection) -> LogprobApi | None:
        for api in LOGPROB_APIS:
            try:
                found = await self._echo(partial(group.post, probed=connection), api, _PROBE_TEXT, probing=True)
            except (RequestFailedError, _NoLogprobsError):
                continue
            except HttpStatusError as exc:
                if exc.status == NOT_FOUND:  # the server has no completions API
                    return None
                raise
            form = _echo_form(found)
            if form is not None:
                self._trailing_tokens, self._first_token_missing = form
                return api
        return None

    async def _check_prompt_api(self, connection: Connection) -> None:
        """Refuse a server that echoes a prompt in another way than the one that was asked first."""

        async def is_alike() -> bool:
            api = self._prompt_api
            if api is None:
                return False
            echoed = await _offered(self._echo(_posts_once(connection), api, _PROBE_TEXT, probing=True))
            return echoed is not None and _echo_form(echoed) == (self._trailing_tokens, self._first_token_missing)

        await self._prompt_agreement.check(connection, is_alike)

    async def score(
        self, group: ServerGroup, prompt: Prompt, continuations: Sequence[str], *, tokens: bool = False
    ) -> Scored:
        """Sum the log-probabilities of each continuation's tokens after the prompt; ``tokens``: also give each."""
        if prompt.messages:
            raise self._unable("gives no log-probabilities of a conversation")
        api = await self.prompt_api(group)
        if api is None:
            raise self._unable("gives no log-probabilities of a prompt")
        post = partial(group.post, check=self._check_prompt_api)
        likelihoods, usages = [], []
        for text in map(replace_surrogates, continuations):
            if not text:
                raise RequestFailedError(unscorable(text, prompt.text))
            whole = await self._echo(post, api, prompt.text + text)
            start = continuation_start(whole.texts, text)
            counted = prompt.rules == "lm-eval"
            # If a token begins where the text does, the tokens before it are those of the prompt alone.
            if start is None or (counted and "".join(whole.texts[start:]) != text):
                alone = await self._echo(post, api, prompt.text) if prompt.text else EchoedTokens((), ())
                start = len(alone.texts) if counted else common_length(whole.texts, alone.texts)
                usages.append(alone.usage)
            likelihoods.append(self._summed(whole, start, prompt.text, text, tokens=tokens))
            usages.append(whole.usage)
        return Scored(tuple(likelihoods), _total(usages))

    async def score_documents(
        self, group: ServerGroup, texts: Sequence[str], start: RollingStart, *, tokens: bool = False
    ) -> Scored:
        """Sum the log-probabilities of all tokens of each document, which the server must be able to read whole.

        Only the server knows what it puts before a text: BOS, or nothing, and then it does not score the first token.
        """
        if start in {"eos", "lm-eval"}:
            token = "EOS" if start == "eos" else "a second BOS"
            raise RequestFailedError(Failed("unsupported", f"a server cannot be told to put {token} before a document"))
        api = await self.prompt_api(group)
        post = partial(group.post, check=self._check_prompt_api)
        if api is None:
            hint = "Measure documents with hf: or vllm: models."
            raise self._unable("gives no log-probabilities of a prompt", hint)
        likelihoods, usages = [], []
        for text in map(replace_surrogates, texts):
            if not text:
                raise RequestFailedError(Failed("no_tokens", "the document has no token that can be scored"))
            whole = await self._echo(post, api, text)
            first = 0 if self._first_token_missing else continuation_start(whole.texts, text)
            if not first and start != "none":
                message = "the server puts no token before a text, so that its first token has no probability"
                # An empty baseline of mutual-info is asked for in the same way; there no option helps.
                help_text = "for documents, --rolling-start none leaves that token out; a baseline must not be empty"
                raise RequestFailedError(Failed("unsupported", f"{message} ({help_text})"))
            skipped = (first or 0) + (start == "none" and not self._first_token_missing)
            if all(each is None for each in whole.logprobs[skipped:]):
                raise RequestFailedError(Failed("no_tokens", "the document has no token that can be scored"))
            likelihoods.append(self._summed(whole, skipped, "", text, tokens=tokens))
            usages.append(whole.usage)
        return Scored(tuple(likelihoods), _total(usages))

    def _summed(self, whole: EchoedTokens, start: int, context: str, text: str, *, tokens: bool) -> Likelihood:
        pairs = zip(whole.logprobs[start:], whole.greedy[start:], strict=True)
        scored = [(min(p, 0.0), greedy) for p, greedy in pairs if p is not None]  # None: the first token of all
        own, flags = [p for p, _ in scored], [greedy for _, greedy in scored]
        if not own:
            failed = unscorable(text, context)
            # After a context the tokenizer makes one token of both, or the server's reply is wrong.
            raise RequestFailedError(Failed("bad_logprobs", failed.message) if context else failed)
        shown = None
        if tokens:
            texts = [each for each, p in zip(whole.texts[start:], whole.logprobs[start:], strict=True) if p is not None]
            shown = read_tokens(texts, own, text)
        return Likelihood(math.fsum(own), len(own), None if None in flags else all(flags), shown)

    async def _echo(self, post: _Post, api: LogprobApi, text: str, *, probing: bool = False) -> EchoedTokens:
        body = {"model": self._model, "prompt": text, "temperature": 0, **dict(api.parameters), **self._extra}

        def read(reply: Any) -> EchoedTokens:
            choice = only_choice(reply)
            with _logprob_errors(probing=probing):
                found = api.read(choice)
                if found is None:
                    raise _NoLogprobsError
                end = len(found.texts) if probing else text_end(found.texts, text, self._trailing_tokens)
                echoed = EchoedTokens(found.texts[:end], found.logprobs[:end], found.greedy[:end], usage_from(reply))
                spare = MAX_TOKEN_CHARACTERS if self._first_token_missing else 0
                if not probing and not covers(echoed.texts, text, spare):
                    raise MalformedReplyError("the tokens are not those of the text")
            return echoed

        echoed: EchoedTokens = await post(
            "/completions",
            lambda: body,
            read,
            estimated_tokens=estimated_tokens(Prompt(text), 1),
            used_tokens=lambda echoed: used_tokens(echoed.usage),
        )
        return echoed

    def _unable(self, what: str, hint: str = _RANKING_HINT) -> BackendError:
        return BackendError(f"the server {what}", where=self._where, hint=hint)

    # ---- log-probabilities of the first token ----

    async def list_length(self, group: ServerGroup, *, chat: bool) -> int:
        """Return how many of the likeliest first tokens the servers list; 0 if they list none."""
        if chat not in self._list_lengths:
            probe = partial(self._probe_list_length, group, chat=chat)
            self._list_lengths[chat] = await self._list_agreements[chat].first_offer(group, probe) or 0
        return self._list_lengths[chat]

    async def _probe_list_length(self, group: ServerGroup, connection: Connection, *, chat: bool) -> int:
        for length in _LIST_LENGTHS:
            try:
                await self._top_tokens(partial(group.post, probed=connection), _list_prompt(chat), length, probing=True)
            except (RequestFailedError, _NoLogprobsError):
                continue
            except HttpStatusError as exc:
                if exc.status == NOT_FOUND:  # the server has no such API
                    return 0
                raise
            return length
        return 0

    async def _check_list(self, connection: Connection, *, chat: bool) -> None:
        """Refuse a server that does not list as many likely tokens as the one that was asked first."""

        async def is_alike() -> bool:
            post, length = _posts_once(connection), self._list_lengths[chat]
            return await _offered(self._top_tokens(post, _list_prompt(chat), length, probing=True)) is not None

        await self._list_agreements[chat].check(connection, is_alike)

    async def first_token(
        self, group: ServerGroup, prompt: Prompt, continuations: Sequence[str], *, tokens: bool = False
    ) -> Scored:
        """Return the log-probability of each continuation as the first token, or a bound if it is not listed.

        A token that is not listed is less likely than each listed one, and all such tokens together have the
        probability that the list leaves. The bound is 1 nat below the lower of these two, the same for all.
        """
        chat = bool(prompt.messages)
        length = await self.list_length(group, chat=chat)
        if not length:
            raise self._unable("lists no likely first tokens")
        post = partial(group.post, check=partial(self._check_list, chat=chat))
        tops, usage = await self._top_tokens(post, prompt, length)
        left = 1.0 - math.fsum(map(math.exp, tops.values()))
        bound = min(*tops.values(), math.log(max(left, 1e-9)), 0.0) - 1.0
        values = [min(tops.get(text, bound), 0.0) for text in continuations]
        pairs = zip(continuations, values, strict=True)
        shown = [((text, value),) if tokens and text in tops else None for text, value in pairs]
        found = (Likelihood(value, 1, token_logprobs=own) for value, own in zip(values, shown, strict=True))
        return Scored(tuple(found), usage)

    async def _top_tokens(
        self, post: _Post, prompt: Prompt, length: int, *, probing: bool = False
    ) -> tuple[dict[str, float], Usage | None]:
        body: Body = {"model": self._model, "max_tokens": 1, "temperature": 0}
        if prompt.messages:
            body["messages"] = openai_messages(prompt)
            body |= {"logprobs": True, "top_logprobs": length}
        else:
            body |= {"prompt": prompt.text, "logprobs": length}
        body |= self._extra

        def read(reply: Any) -> tuple[dict[str, float], Usage | None]:
            choice = only_choice(reply)
            with _logprob_errors(probing=probing):
                found = top_logprobs(choice, chat=bool(prompt.messages))
                if not found:
                    raise _NoLogprobsError
            return found, usage_from(reply)

        listed: tuple[dict[str, float], Usage | None] = await post(
            "/chat/completions" if prompt.messages else "/completions",
            lambda: body,
            read,
            estimated_tokens=estimated_tokens(prompt, 1),
            used_tokens=lambda result: used_tokens(result[1]),
        )
        return listed


def _list_prompt(chat: bool) -> Prompt:  # noqa: FBT001 - one value
    return Prompt(messages=(Message("user", "Answer with one letter."),)) if chat else Prompt(_PROBE_TEXT)


def _echo_form(found: EchoedTokens) -> tuple[int, bool] | None:
    """Return how many tokens follow an echoed probe, and whether its first token is missing; None if it is no echo."""
    for trailing in range(_MAX_TRAILING_TOKENS + 1):
        texts = found.texts[: len(found.texts) - trailing]
        whole = "".join(texts)  # the first token may be missing, or BOS may come before it
        short = not whole.endswith(_PROBE_TEXT)
        known = not short or (_PROBE_TEXT.endswith(whole) and len(whole) > len(_PROBE_TEXT) / 2)
        if known and len(texts) > 1:
            return trailing, short
    return None


def _posts_once(connection: Connection) -> _Post:
    """Return what posts to one server in a call that it has taken already, and does not try again."""

    async def post(path: str, build: Callable[[], Body], read: Callable[[Any], Any], **_: Any) -> Any:
        return await connection.post_once(path, build(), read, probe=True)

    return post


async def _offered(probe: Awaitable[T]) -> T | None:
    """Return what a server gives; None if it does not offer it."""
    try:
        return await probe
    except UnsentError:
        raise
    except (RequestFailedError, _NoLogprobsError):
        return None
    except HttpStatusError as exc:
        if exc.status != NOT_FOUND:
            raise
        return None


class _NoLogprobsError(Exception):
    """The server answered without log-probabilities."""


@contextmanager
def _logprob_errors(*, probing: bool) -> Iterator[None]:
    """Turn unusable log-probabilities into the failure of this request; for a probe, the server offers none."""
    try:
        yield
    except _NoLogprobsError:
        if probing:
            raise  # another try would not help
        raise MalformedReplyError("no log-probabilities") from None
    except MalformedReplyError as exc:
        if probing:
            raise _NoLogprobsError from None
        message = f"the server's log-probabilities cannot be used: {exc}"
        raise RequestFailedError(Failed("bad_logprobs", message)) from None


def _total(usages: Sequence[Usage | None]) -> Usage | None:
    known = [usage for usage in usages if usage is not None]
    if not known:
        return None
    counts = ((u.prompt_tokens, u.completion_tokens, u.cached_tokens) for u in known)
    return Usage(*map(sum, zip(*counts, strict=True)))
