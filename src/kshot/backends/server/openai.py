"""``openai:MODEL``: any server with OpenAI's chat and completions APIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kshot.backends.server.batch_apis import BatchApi, OpenAIBatches
from kshot.backends.server.batches import ServerCall
from kshot.backends.server.connection import Body, MalformedReplyError, ServerGroup
from kshot.backends.server.keys import Provider
from kshot.backends.server.loglik import ServerLogprobs
from kshot.backends.server.message_parts import openai_messages
from kshot.backends.server.parameter_changes import ParameterChanges
from kshot.backends.server.replies import (
    estimated_tokens,
    generated,
    only_choice,
    reply_tokens,
    sampled_seed,
    texts_of,
    usage_from,
)
from kshot.backends.server.server import Server
from kshot.backends.texts import replace_surrogates, scored_parts, valid_message
from kshot.core.content import BY_ADDRESS, MEDIA_KINDS
from kshot.core.errors import BackendError
from kshot.core.reasoning import opens_thoughts
from kshot.core.records import Generate, Generated, Loglik, Prompt, Request, Response
from kshot.prompts.chat import Renderer, opened_text, renderer

OPENAI = Provider(
    "openai", "https://api.openai.com/v1", "OPENAI_API_KEY", lambda key: ("Authorization", f"Bearer {key}")
)

_MAX_STOP_STRINGS = 4
"""Servers accept no more stop strings than this; kshot cuts the reply at the others."""


class OpenAI(Server):
    """A model behind an OpenAI-compatible server: conversations go to its chat API, texts to its completions API.

    Log-probabilities of a prompt come from ``echo`` or ``prompt_logprobs``: the server is asked once which it offers.
    """

    answers = (Generate, Loglik)
    provider = OPENAI
    media = frozenset({*MEDIA_KINDS, BY_ADDRESS})

    def __init__(self, spec: str, *, chat_template: str | None = None, **options: Any) -> None:
        """Take the settings; nothing is sent yet."""
        self._chat_template = chat_template
        super().__init__(spec, **options)
        self._render: Renderer | None = renderer(chat_template) if chat_template else None
        self._logprobs = ServerLogprobs(self._model, self._where, self._extra)

    def _identity(self) -> Sequence[str]:
        return [self._chat_template] if self._chat_template else []

    # ---- how options can be ranked ----

    def best_ranking(self, chat: bool) -> str:  # noqa: FBT001 - the protocol calls it with one value
        """Return the best ranking type for this server, which is asked once: see ``--ranking-type auto``."""
        if self._batches is not None:
            return "generation"

        async def probe() -> str:
            group = await self._connected()
            if (self._render or not chat) and await self._logprobs.prompt_api(group) is not None:
                return "ppl_no_option"
            as_chat = chat and self._render is None
            return "first_token" if await self._logprobs.list_length(group, chat=as_chat) else "generation"

        return self._event_loop.run(probe())

    # ---- answering ----

    async def _answer(self, group: ServerGroup, request: Request) -> Response:
        if isinstance(request, Loglik):
            tokens = request.token_logprobs
            if request.rolling:
                documents = request.continuations
                return await self._logprobs.score_documents(group, documents, request.rolling, tokens=tokens)
            prompt, texts = self._rendered(request.prompt), request.continuations
            if not prompt.messages:
                context, texts = scored_parts(request, prompt.text)
                prompt = Prompt(context, rules=request.prompt.rules)
            if request.listed:
                return await self._logprobs.first_token(group, prompt, texts, tokens=tokens)
            return await self._logprobs.score(group, prompt, texts, tokens=tokens)
        return await super()._answer(group, request)

    def _rendered(self, prompt: Prompt) -> Prompt:
        """Return the prompt that is sent: with a chat template, kshot writes a conversation out as a text."""
        if not prompt.messages:
            return Prompt(replace_surrogates(prompt.text))
        if self._render is None and prompt.opened:
            raise BackendError(
                "a server does not go on with a reply that the task begins itself",
                where=self._where,
                hint="Give the model's template with --chat-template FILE, or use --model-type base.",
            )
        if self._render is None:
            return prompt
        if prompt.media:
            raise BackendError(
                "a prompt with images, sound or video cannot be written out by --chat-template",
                where=self._where,
                hint="Leave --chat-template out: the server has a template of its own.",
            )
        messages = tuple(map(valid_message, prompt.messages))
        return Prompt(opened_text(prompt, messages, self._render))

    def _call(self, request: Request) -> ServerCall:
        if not isinstance(request, Generate):
            what = f"it cannot answer {type(request).__name__} requests with --batch-api, only Generate"
            raise BackendError(what, where=self.name, hint="Ask by generation instead: --ranking-type generation.")
        prompt = self._rendered(request.prompt)
        return ServerCall(
            "/chat/completions" if prompt.messages else "/completions",
            partial(self._body, prompt, request),
            partial(_read, request, prompt),
            estimated_tokens(prompt, self._reply_tokens(request)),
        )

    def _batch_api(self) -> BatchApi:
        return OpenAIBatches()

    def _body(self, prompt: Prompt, request: Generate, changes: ParameterChanges) -> Body:
        body: Body = {"model": self._model}
        if prompt.messages:
            body["messages"] = openai_messages(prompt)
        else:
            body["prompt"] = prompt.text
        optional = {
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "stop": list(request.stop[:_MAX_STOP_STRINGS]) or None,
            "top_p": request.top_p,
            "top_k": request.top_k,
            "repetition_penalty": request.repetition_penalty,
            "no_repeat_ngram_size": request.no_repeat_ngram_size,
            "seed": sampled_seed(request),
        }
        if request.token_logprobs:  # the chat API has a switch, the older API the number of tokens to list
            optional["logprobs"] = True if prompt.messages else 1
        return body | self._accepted(optional, changes)


def _read(request: Generate, prompt: Prompt, body: Any) -> Generated:
    """Read the reply to a request."""
    choice = only_choice(body)
    text, reasoning, tool = _chat_message(choice) if prompt.messages else (choice.get("text"), "", False)
    if text is not None and not isinstance(text, str):
        raise MalformedReplyError("no text")
    return generated(
        request,
        text,
        reasoning,
        choice.get("finish_reason"),
        usage_from(body),
        called_tool=tool,
        opened=not prompt.messages and opens_thoughts(prompt.text),
        readings=reply_tokens(choice, chat=bool(prompt.messages)) if request.token_logprobs else (),
    )


def _chat_message(choice: Mapping[str, Any]) -> tuple[Any, str, bool]:
    """Return the text of a chat reply or its refusal (None: neither), its reasoning, and whether it calls a tool."""
    message = choice["message"]
    content = message.get("content")
    if isinstance(content, list):  # some servers answer in content parts
        texts = texts_of(content)
        content = "".join(texts) if texts else None
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    called_tool = bool(message.get("tool_calls") or message.get("function_call"))
    return content or message.get("refusal") or content, reasoning if isinstance(reasoning, str) else "", called_tool
