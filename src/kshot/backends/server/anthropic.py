"""``anthropic:MODEL``: Anthropic's messages."""

from __future__ import annotations

from typing import Any

from kshot.backends.server.connection import Address, Body, Malformed, Wire, key_from, located
from kshot.backends.server.rate_limiter import Limits
from kshot.backends.server.replies import estimated, texts_of, tokens_used, usage_of, written
from kshot.backends.server.server import Fit, Server
from kshot.backends.texts import replace_surrogates
from kshot.core.errors import BackendError
from kshot.core.records import Generate, Generated, Request, Response

DEFAULT = "https://api.anthropic.com/v1"
KEY = "ANTHROPIC_API_KEY"
VERSION = "2023-06-01"


class Anthropic(Server):
    """A model behind Anthropic's API: it writes in conversations; it has no log-probabilities."""

    answers = (Generate,)

    def __init__(
        self,
        spec: str,
        *,
        base_url: str | None = None,
        timeout: float = 600.0,
        max_concurrency: int = 64,
        rpm: int | None = None,
        tpm: int | None = None,
        patience: float = 300.0,
    ) -> None:
        """Prepare; nothing is sent yet. The key comes from ANTHROPIC_API_KEY."""
        model, url = located(spec, base_url, DEFAULT)
        where = f"anthropic:{model} at {url}"
        key = key_from(KEY, needed=url == DEFAULT, where=where)
        headers = {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}
        address = Address(url, where, KEY, headers, timeout, key)
        super().__init__("anthropic", spec, model, address, Limits(max_concurrency, rpm, tpm, patience))

    def best_ranking(self, chat: bool) -> str:  # noqa: ARG002, FBT001 - the same in both
        """There are no log-probabilities to rank by."""
        return "generation"

    async def _answer(self, wire: Wire, request: Request) -> Response:
        if not isinstance(request, Generate) or not request.prompt.messages:
            raise BackendError(
                "it answers conversations only", where=self._address.where, hint="Use --model-type chat."
            )

        def read(body: Any) -> Generated:
            content = body.get("content")
            if content is not None and not isinstance(content, list):
                raise Malformed("no content")
            parts = [part for part in content or [] if isinstance(part, dict)]
            kinds, finish = {part.get("type") for part in parts}, body.get("stop_reason")
            texts = texts_of(parts)
            # Stopped at once, or having thought in secret, it wrote an empty text.
            empty = finish == "stop_sequence" or "redacted_thinking" in kinds
            text = "".join(texts) if texts or empty else None
            reasoning = "\n".join(texts_of(parts, "thinking"))
            usage = usage_of(body, "input_tokens", "output_tokens")
            return written(request, text, reasoning, finish, usage, tool="tool_use" in kinds)

        found = await self._ask(
            wire,
            "/messages",
            lambda fit: self._body(request, fit),
            read,
            tokens=estimated(request.prompt, self._reply_tokens(request)),
            used=tokens_used,
        )
        return self._learn(found)

    def _body(self, request: Generate, fit: Fit) -> Body:
        messages = request.prompt.messages
        system = "\n".join(replace_surrogates(m.content) for m in messages if m.role == "system")
        optional = {
            "system": system or None,
            "temperature": request.temperature,
            # Stop strings of white space alone are refused there; they are cut here.
            "stop_sequences": [text for text in request.stop if text.strip()] or None,
            "top_p": request.top_p,
            "top_k": request.top_k,
        }
        return {
            "model": self._model,
            "max_tokens": request.max_tokens,
            "messages": [
                {"role": m.role, "content": replace_surrogates(m.content)} for m in messages if m.role != "system"
            ],
            **self._taken(optional, fit),
        }
