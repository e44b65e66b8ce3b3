"""``anthropic:MODEL``: Anthropic's messages API."""

from __future__ import annotations

from functools import partial
from typing import Any

from kshot.backends.server.batch_apis import AnthropicBatches, BatchApi
from kshot.backends.server.batches import ServerCall
from kshot.backends.server.connection import Body, MalformedReplyError
from kshot.backends.server.keys import Provider
from kshot.backends.server.message_parts import anthropic_messages
from kshot.backends.server.parameter_changes import ParameterChanges
from kshot.backends.server.replies import estimated_tokens, generated, texts_of, usage_from
from kshot.backends.server.server import Server
from kshot.backends.texts import replace_surrogates
from kshot.core.content import BY_ADDRESS
from kshot.core.errors import BackendError
from kshot.core.records import Generate, Generated, Request

ANTHROPIC = Provider(
    "anthropic",
    "https://api.anthropic.com/v1",
    "ANTHROPIC_API_KEY",
    lambda key: ("x-api-key", key),
    (("anthropic-version", "2023-06-01"),),
)

_PATH = "/messages"


class Anthropic(Server):
    """A model behind Anthropic's API: it answers conversations, and has no log-probabilities."""

    answers = (Generate,)
    provider = ANTHROPIC
    media = frozenset({"image", BY_ADDRESS})
    usage_fields = ("input_tokens", "output_tokens")

    def best_ranking(self, chat: bool) -> str:  # noqa: ARG002, FBT001 - the same for chats and texts
        """Return ``generation``: there are no log-probabilities to rank by."""
        return "generation"

    def _call(self, request: Request) -> ServerCall:
        if not isinstance(request, Generate) or not request.prompt.messages:
            raise BackendError("the model answers conversations only", where=self._where, hint="Use --model-type chat.")
        tokens = estimated_tokens(request.prompt, self._reply_tokens(request))
        return ServerCall(_PATH, partial(self._body, request), partial(self._read, request), tokens)

    def _batch_api(self) -> BatchApi:
        return AnthropicBatches()

    def _read(self, request: Generate, body: Any) -> Generated:
        """Read the reply to a request."""
        content = body.get("content")
        if content is not None and not isinstance(content, list):
            raise MalformedReplyError("no content")
        parts = [part for part in content or [] if isinstance(part, dict)]
        kinds, stop_reason = {part.get("type") for part in parts}, body.get("stop_reason")
        texts = texts_of(parts)
        # The text is empty if the reply stopped at once, or if all of it was hidden reasoning.
        empty = stop_reason == "stop_sequence" or "redacted_thinking" in kinds
        text = "".join(texts) if texts or empty else None
        reasoning = "\n".join(texts_of(parts, "thinking"))
        usage = usage_from(body, *self.usage_fields)
        return generated(request, text, reasoning, stop_reason, usage, called_tool="tool_use" in kinds)

    def _body(self, request: Generate, changes: ParameterChanges) -> Body:
        messages = request.prompt.messages
        system = "\n".join(replace_surrogates(m.text) for m in messages if m.role == "system")
        optional = {
            "system": system or None,
            "temperature": request.temperature,
            # The API refuses stop strings of white space alone; kshot cuts the reply at these.
            "stop_sequences": [text for text in request.stop if text.strip()] or None,
            "top_p": request.top_p,
            "top_k": request.top_k,
        }
        return {
            "model": self._model,
            "max_tokens": request.max_tokens,
            "messages": anthropic_messages(request.prompt),
            **self._accepted(optional, changes),
        }
