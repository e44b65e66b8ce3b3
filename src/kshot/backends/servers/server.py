"""What the two dialects share: a name, a fingerprint, a link to the server, and serving through it."""

from __future__ import annotations

import hashlib
import json
import re
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from kshot.backends.servers.gate import Limits
from kshot.backends.servers.link import Link, Serving
from kshot.backends.servers.trouble import Answer, Refused
from kshot.backends.servers.wire import Address, Body, Wire, library
from kshot.records import Generate, Generated, Request, Response
from kshot.task import Waiting

_MAY_GO = ("temperature", "top_p", "seed", "stop")
_UNSUPPORTED = re.compile(
    r"(?i)unsupported|not support|unrecogni[sz]ed|unknown|unexpected|instead|only the default|extra"
)
_AHEAD = 2
"""Requests kept in the loop for each that may run: the wire never waits for the engine."""


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
        self._mean_reply = 0.0
        self._dropped: set[str] = set()
        self._renamed: dict[str, str] = {}
        weakref.finalize(self, self._link.close)

    def __repr__(self) -> str:
        """Name the model and the server, and no key."""
        return f"<{self.name} at {self._address.url}>"

    def serve(self, waiting: Waiting, /) -> Iterator[tuple[Request, Response]]:
        """Keep the server as busy as it likes to be, and yield answers as they come."""
        serving = Serving(self._link.loop, self._respond)
        return serving.pairs(waiting, _AHEAD * self._limits.most)

    async def wire(self) -> Wire:
        """The one pool of connections."""
        if self._wire is None:
            self._wire = Wire(self._address, self._limits)
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

    def _taken(self, optional: Mapping[str, Any]) -> Body:
        """The parameters that are set and that the server is known to take, under the names it knows."""
        kept = {name: value for name, value in optional.items() if value is not None and name not in self._dropped}
        return {self._renamed.get(name, name): value for name, value in kept.items()}

    def _adapt(self, body: Body, answer: Answer) -> bool:
        """Learn from a refusal that names a parameter: newer models call it otherwise, or take only its default."""
        message, code, param = answer.fault
        if answer.status not in {400, 422} or not (code.startswith("unsupported") or _UNSUPPORTED.search(message)):
            return False
        for name in ("max_tokens", *_MAY_GO):
            if name not in body or not (param == name or re.search(rf"\b{name}\b", message)):
                continue
            if name == "max_tokens":
                self._renamed[name] = "max_completion_tokens"
            else:
                self._dropped.add(name)
                self._note(f"the server does not take {name}: it is left out, and the server's own default holds")
            return True
        return False

    def _note(self, text: str) -> None:
        note = f"{self.name}: {text}"
        if note not in self.notes:
            self.notes.append(note)


def limits_from(options: Mapping[str, Any]) -> Limits:
    """What the user allows, from the settings."""
    named = {"most": "max_concurrency", "rpm": "rpm", "tpm": "tpm", "patience": "patience"}
    given = {name: options.get(option) for name, option in named.items()}
    return Limits(**{name: value for name, value in given.items() if value is not None})
