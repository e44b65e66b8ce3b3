"""What the two APIs share: a name, a fingerprint, an event loop, connections, and serving requests through them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from kshot.backends.server.batch_apis import BatchApi, BatchHttp
from kshot.backends.server.batches import BatchedModel, Batches, ServerCall
from kshot.backends.server.connection import Body, ServerGroup, load_aiohttp
from kshot.backends.server.event_loop import EventLoopHandle, WorkerPool, inherited
from kshot.backends.server.http_errors import HttpReply, HttpStatusError, RequestFailedError, UnsentError, bytes_of
from kshot.backends.server.keys import Account, Address, Provider, account_for, model_and_urls, proxy_for
from kshot.backends.server.parameter_changes import ParameterChanges, adapt, read_request_options
from kshot.backends.server.rate_limiter import RequestLimits
from kshot.backends.server.replies import Notes, used_tokens
from kshot.core.budget import Tries
from kshot.core.errors import UsageError
from kshot.core.protocols import Abilities, RequestQueue
from kshot.core.records import Failed, Generate, Generated, Request, Response

T = TypeVar("T")

_LOGPROBS = "logprobs"
"""The parameter of both APIs that asks for the log-probabilities of a reply's tokens."""
_LOGPROBS_REFUSED = frozenset({400, 403, 422})
"""What servers say that do not give them; OpenAI's own says 403, as for a wrong key."""


class Server(ABC):
    """A model behind a server, or behind several side by side. Nothing is sent before the first request."""

    answers: tuple[type, ...] = (Generate,)
    in_background = True
    provider: Provider
    usage_fields = ("prompt_tokens", "completion_tokens")
    media: frozenset[str] = frozenset()
    """What the API takes beside text, as in ``Abilities``; the model behind it may take less, and then says so."""

    def __init__(
        self,
        spec: str,
        *,
        base_url: str | Sequence[str] | None = None,
        api_key_env: str | None = None,
        header: Sequence[str] | None = None,
        request_option: Sequence[str] | None = None,
        timeout: float = 600.0,
        max_concurrency: int = 64,
        rpm: int | None = None,
        tpm: int | None = None,
        patience: float = 300.0,
        max_reply: str = "64MB",
        batch_api: bool = False,
    ) -> None:
        """Take the settings; nothing is sent yet."""
        load_aiohttp()
        kind = self.provider.name
        self.name = f"{kind}:{spec}"
        self._model, urls = model_and_urls(spec, base_url, self.provider.url)
        self._where = f"{kind}:{self._model} at {', '.join(urls)}"
        self._extra = read_request_options(request_option or (), self._where)
        addresses = []
        for url in urls:
            where = f"{kind}:{self._model} at {url}"
            account = account_for(self.provider, url, api_key_env, header or (), where)
            addresses.append(Address(url, where, account, timeout, bytes_of(max_reply), proxy_for(url)))
        self._addresses = tuple(addresses)
        self._secrets = Account(secrets=tuple(each for address in addresses for each in address.account.secrets))
        self._notes = Notes(self._model, self.usage_fields, addresses)
        self._limits = RequestLimits(max_concurrency, rpm, tpm, patience)
        # Servers side by side are one model, and the first address stands for all of them.
        parts = [kind, urls[0], self._model, *self._identity(), *([self._extra] if self._extra else [])]
        body = json.dumps(parts, ensure_ascii=False, sort_keys=True)
        self.fingerprint = (
            f"{kind}:{hashlib.blake2b(body.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
        )
        self._event_loop = EventLoopHandle()
        self._group: ServerGroup | None = None
        self._group_loop: asyncio.AbstractEventLoop | None = None
        self._mean_reply_tokens = 0.0
        self._changes = ParameterChanges()
        self._gives_logprobs = False
        self._tries = Tries()
        self._batches = self._made_batches() if batch_api else None
        weakref.finalize(self, self._event_loop.close_later).atexit = False  # the event loop sees to that itself

    def _made_batches(self) -> Batches:
        """Return the batches that the requests go into, instead of being sent one by one."""
        if len(self._addresses) > 1:
            raise UsageError("--batch-api needs one server", where=self._where, hint="Give --base-url once.")
        self.in_background = False
        model = BatchedModel(
            fingerprint=self.fingerprint,
            call=self._batched_call,
            adapt=self._adapted,
            changes=self._changes,
            inspect=self._notes.inspectors[0],
            tries=self._tries,
            redacted=self._redacted,
        )
        http = BatchHttp(self._addresses[0], self._event_loop, self._limits.patience)
        return Batches(model, self._batch_api(), http)

    def _batched_call(self, request: Request) -> ServerCall:
        call = self._call(request)
        return call._replace(body=lambda changes: call.body(changes) | self._extra)

    def _adapted(self, body: Body, reply: HttpReply) -> bool:
        """Keep for all later requests what the server's error asks for; return whether it asks for something."""
        changes = ParameterChanges()
        if not adapt(changes, body, reply):
            return False
        self._keep(changes)
        return True

    @abstractmethod
    def _batch_api(self) -> BatchApi:
        """Return the batch API of the provider."""

    @abstractmethod
    def _call(self, request: Request) -> ServerCall:
        """Return how a request that asks for a text is put to the server."""

    def _identity(self) -> Sequence[str]:
        """Return what changes the answers, beside the model, its address and its request options."""
        return ()

    @property
    def notes(self) -> list[str]:
        """What is strange about the servers, each once; of several, also what each of them did."""
        return [*self._notes.texts, *(self._group.notes if self._group is not None else ())]

    @property
    def abilities(self) -> Abilities:
        """It is a server, and can say how it ranks options best."""
        return Abilities(
            best_ranking=self.best_ranking, server=True, tries=self._tries, media=self.media, batches=self._batches
        )

    @abstractmethod
    def best_ranking(self, chat: bool) -> str:  # noqa: FBT001 - the protocol calls it with one value
        """Return the best ranking type that the server offers: see ``--ranking-type auto``."""

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        self._event_loop.close()

    def __repr__(self) -> str:
        """Show the model and the server, and no key."""
        return f"<{self.name} at {', '.join(address.url for address in self._addresses)}>"

    def serve(self, queue: RequestQueue, /) -> Iterator[tuple[Request, Response] | None]:
        """Answer requests, as many at one time as the servers can take, and yield the answers as they come."""
        if self._batches is not None:
            return self._batches.serve(queue)
        limit = self._limits.max_concurrency * len(self._addresses)
        return WorkerPool(self._event_loop, self._respond, limit, self._where).serve(queue)

    async def _connected(self) -> ServerGroup:
        """Return the connections, opened now unless they are open in this event loop."""
        loop = asyncio.get_running_loop()
        group = self._group
        if group is None or group.closed or self._group_loop is not loop:
            if group is not None and not group.closed:  # a forked process has that of its parent
                inherited.append(group)
            group = ServerGroup(self._addresses, self._limits, self._tries, self._notes.inspectors, self._where)
            self._group, self._group_loop = group, loop
            self._event_loop.on_close.append(group.close)
        return group

    async def _respond(self, request: Request) -> Response:
        with self._tries.request():
            try:
                response = await self._answer(await self._connected(), request)
            except RequestFailedError as exc:
                response = exc.failed
        return self._redacted(response)

    def _redacted(self, response: Response) -> Response:
        """Return the response without any key, which a server may have quoted in parts."""
        account = self._secrets
        if isinstance(response, Generated):
            text, reasoning = account.redacted(response.text), account.redacted(response.reasoning)
            tokens = response.token_logprobs if text == response.text else None  # they would spell the key
            whole = account.redacted(response.whole)
            return replace(response, text=text, reasoning=reasoning, token_logprobs=tokens, whole=whole)
        return (
            replace(response, message=account.redacted(response.message)) if isinstance(response, Failed) else response
        )

    async def _answer(self, group: ServerGroup, request: Request) -> Response:
        """Answer one request."""
        return await self._post(group, self._call(request))

    def _reply_tokens(self, request: Generate) -> float:
        """Estimate the length of a reply: the longest possible, until some replies have been seen."""
        return min(request.max_tokens, 2 * self._mean_reply_tokens) if self._mean_reply_tokens else request.max_tokens

    async def _post(self, group: ServerGroup, call: ServerCall) -> Generated:
        """Post without the parameters that the server refuses; a change that helps is kept for all later requests.

        No code says that a server refuses log-probabilities. As long as it has given none, a request that it refuses is
        posted without them: if that is answered, they were the reason, and otherwise the first error holds.
        """
        changes = ParameterChanges()
        asked = _LOGPROBS in call.body(changes)
        post = partial(
            group.post,
            call.path,
            lambda: call.body(changes) | self._extra,
            call.read,
            adapt=lambda body, reply: adapt(changes, body, reply),
            estimated_tokens=call.tokens,
            used_tokens=lambda reply: used_tokens(reply.usage),
        )
        try:
            reply = await post()
        except (RequestFailedError, HttpStatusError) as first:
            if not asked or self._gives_logprobs or first.status not in _LOGPROBS_REFUSED:
                raise
            changes.dropped.add(_LOGPROBS)
            try:
                reply = await post()
            except UnsentError:
                raise
            except (RequestFailedError, HttpStatusError):
                raise first from None
        self._gives_logprobs |= asked and _LOGPROBS not in changes.dropped
        self._keep(changes)
        if reply.usage is not None:
            mean = self._mean_reply_tokens or reply.usage.completion_tokens
            self._mean_reply_tokens = mean + 0.05 * (reply.usage.completion_tokens - mean)
        return reply

    def _keep(self, changes: ParameterChanges) -> None:
        for name in sorted(changes.dropped):
            self._notes.add(f"the server does not accept {name}: it is left out, and the server's default holds")
        for name, other in changes.renamed.items():
            self._notes.add(f"the server does not accept {name}: it is sent as {other}")
        self._changes.dropped |= changes.dropped
        self._changes.renamed |= changes.renamed

    def _accepted(self, optional: Mapping[str, Any], changes: ParameterChanges) -> Body:
        """Return the parameters that are set and not refused, under the names that the server knows."""
        dropped, renamed = self._changes.dropped | changes.dropped, self._changes.renamed | changes.renamed
        sent = {name: value for name, value in optional.items() if value is not None and name not in dropped}
        return {renamed.get(name, name): value for name, value in sent.items()}
