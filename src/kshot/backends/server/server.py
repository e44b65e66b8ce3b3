"""What the two dialects share: a name, a fingerprint, a link to the server, and serving through it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kshot.backends.server.connection import Address, Body, Wire, library
from kshot.backends.server.event_loop import Link, abandoned
from kshot.backends.server.http_errors import Answer, Refused
from kshot.backends.server.rate_limiter import Limits
from kshot.backends.server.workers import Crew
from kshot.core.protocols import Abilities, RequestQueue
from kshot.core.records import Generate, Generated, Request, Response

T = TypeVar("T")

_MAY_GO = ("temperature", "top_p", "seed", "stop")
_VERB = (
    r"(?:unsupported|not support|unrecogni[sz]ed|unknown|unexpected|only the default|extra|deprecated"
    r"|not (?:permitted|allowed))"
)
_UNSUPPORTED = re.compile(rf"(?i){_VERB}|instead")
_QUOTE = "['\"`‘’“”]"


@dataclass(slots=True)
class Fit:
    """What one request tries so as to be taken; the others do the same once it was answered that way."""

    dropped: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)


class Server(ABC):
    """A model behind a server. Nothing is sent before the first request; a closed pool opens again."""

    answers: tuple[type, ...] = (Generate,)

    def __init__(self, kind: str, spec: str, model: str, address: Address, limits: Limits, *settled: Any) -> None:
        library()
        self.name = f"{kind}:{spec}"
        self.notes: list[str] = []
        self._model, self._address, self._limits = model, address, limits
        body = json.dumps([kind, address.url, model, *settled], ensure_ascii=False)
        self.fingerprint = (
            f"{kind}:{hashlib.blake2b(body.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
        )
        self._link = Link()
        self._wire: Wire | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._mean_reply = 0.0
        self._fit = Fit()
        weakref.finalize(self, self._link.close)

    @property
    def abilities(self) -> Abilities:
        """It knows how options are best ranked."""
        return Abilities(best_ranking=self.best_ranking)

    @abstractmethod
    def best_ranking(self, chat: bool) -> str:  # noqa: FBT001 - the one thing that is asked
        """Return the best ranking type that the server offers: see ``--ranking-type auto``."""

    def close(self) -> None:
        """Close the connections; a request after this opens them again."""
        self._link.close()

    def __repr__(self) -> str:
        """Name the model and the server, and no key."""
        return f"<{self.name} at {self._address.url}>"

    def serve(self, waiting: RequestQueue, /) -> Iterator[tuple[Request, Response]]:
        """Keep the server as busy as it likes to be, and yield answers as they come."""
        return Crew(self._link, self._respond, self._limits.most).pairs(waiting)

    async def wire(self) -> Wire:
        """The one pool of connections."""
        loop = asyncio.get_running_loop()
        if self._wire is None or self._loop is not loop:  # a forked process has another one
            abandoned.extend([self._wire] if self._wire else [])
            self._wire, self._loop = Wire(self._address, self._limits), loop
            self._link.closing.append(self._wire.close)
        return self._wire

    async def _respond(self, request: Request) -> Response:
        try:
            return await self._answer(await self.wire(), request)
        except Refused as exc:
            return exc.failed

    @abstractmethod
    async def _answer(self, wire: Wire, request: Request) -> Response:
        """Answer one request."""

    def _reply_tokens(self, request: Generate) -> float:
        """Guess the length of a reply: all that it may have, until some have been seen."""
        return min(request.max_tokens, 2 * self._mean_reply) if self._mean_reply else request.max_tokens

    def _learn(self, found: Generated) -> Generated:
        if found.usage is not None:
            mean = self._mean_reply or found.usage.completion_tokens
            self._mean_reply = mean + 0.05 * (found.usage.completion_tokens - mean)
        return found

    async def _ask(
        self,
        wire: Wire,
        path: str,
        build: Callable[[Fit], Body],
        read: Callable[[Any], T],
        *,
        tokens: float,
        used: Callable[[T], float],
    ) -> T:
        """Post, without the parameters that the server refuses; what was left out is left out for all if that helps."""
        fit = Fit()
        found = await wire.post(
            path,
            lambda: build(fit),
            read,
            adapt=lambda body, answer: _adapt(fit, body, answer),
            tokens=tokens,
            used=used,
        )
        self._keep(fit)
        return found

    def _keep(self, fit: Fit) -> None:
        for name in sorted(fit.dropped):
            self._note(f"the server does not take {name}: it is left out, and the server's own default holds")
        for name, other in fit.renamed.items():
            self._note(f"the server does not take {name}: it is sent as {other}")
        self._fit.dropped |= fit.dropped
        self._fit.renamed |= fit.renamed

    def _taken(self, optional: Mapping[str, Any], fit: Fit) -> Body:
        """The parameters that are set and that the server is known to take, under the names it knows."""
        dropped, renamed = self._fit.dropped | fit.dropped, self._fit.renamed | fit.renamed
        kept = {name: value for name, value in optional.items() if value is not None and name not in dropped}
        return {renamed.get(name, name): value for name, value in kept.items()}

    def _note(self, text: str) -> None:
        note = f"{self.name}: {text}"
        if note not in self.notes:
            self.notes.append(note)


def _adapt(fit: Fit, body: Body, answer: Answer) -> bool:
    """Try what a refusal asks for that names a parameter: newer models call it otherwise, or take only its default."""
    if answer.status not in {400, 422}:
        return False
    for name in ("max_tokens", *_MAY_GO):
        if name not in body or not _refuses(answer, name):
            continue
        if name == "max_tokens":
            fit.renamed[name] = "max_completion_tokens"
        else:
            fit.dropped.add(name)
        return True
    return False


def _refuses(answer: Answer, name: str) -> bool:
    """Whether it is this parameter that is refused, and not its value, nor a prompt that has its name in it."""
    message, code, param = answer.fault
    coded = code.startswith("unsupported") or code == "unknown_parameter"
    if param not in {"", "None"}:
        return param == name and bool(coded or _UNSUPPORTED.search(message))
    if coded:
        return re.search(rf"\b{name}\b", message) is not None
    quoted, between = f"{_QUOTE}{name}{_QUOTE}", r"[^.;]{0,60}?"
    said = rf"{_VERB}{between}{quoted}|{quoted}{between}{_VERB}|{_VERB}[\w ]{{0,40}}: {name}\b|^{name}: {_VERB}"
    return re.search(f"(?i){said}", message) is not None
