"""``openai:MODEL``: any server that speaks OpenAI's chat and completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshot.backends.server import loglik
from kshot.backends.server.connection import Address, Body, Malformed, Wire, key_from, located
from kshot.backends.server.rate_limiter import Limits
from kshot.backends.server.replies import (
    apart,
    estimated,
    only_choice,
    sampled_seed,
    texts_of,
    tokens_used,
    usage_of,
    written,
)
from kshot.backends.server.server import Fit, Server
from kshot.backends.texts import replace_surrogates
from kshot.core.errors import BackendError
from kshot.core.records import Generate, Generated, Loglik, Message, Prompt, Request, Response
from kshot.prompts.chat import Renderer, fold_system, renderer

DEFAULT = "https://api.openai.com/v1"
KEY = "OPENAI_API_KEY"

_STOPS = 4
"""Servers take no more stop strings than this; the rest is cut here."""


class OpenAI(Server):
    """A model behind an OpenAI-compatible server: conversations go to its chat, texts to its completions.

    Log-probabilities of a prompt come from ``echo`` or ``prompt_logprobs``: the server is asked once what it offers.
    """

    answers = (Generate, Loglik)

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
        chat_template: str | None = None,
    ) -> None:
        """Prepare; nothing is sent yet. The key comes from OPENAI_API_KEY."""
        model, url = located(spec, base_url, DEFAULT)
        where = f"openai:{model} at {url}"
        key = key_from(KEY, needed=url == DEFAULT, where=where)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        address = Address(url, where, KEY, headers, timeout, key)
        super().__init__(
            "openai",
            spec,
            model,
            address,
            Limits(max_concurrency, rpm, tpm, patience),
            *([chat_template] if chat_template else []),
        )
        self._render: Renderer | None = renderer(chat_template) if chat_template else None
        self._scores = loglik.Scores(model, where)

    # ---- how options can be ranked ----

    def best_ranking(self, chat: bool) -> str:  # noqa: FBT001 - the one thing that is asked
        """How multiple choice is best put to this server, which is asked once: see ``--ranking-type auto``."""

        async def look() -> str:
            wire = await self.wire()
            if (self._render or not chat) and await self._scores.way(wire) is not None:
                return "ppl_no_option"
            as_chat = chat and self._render is None
            return "first_token" if await self._scores.lists(wire, chat=as_chat) else "generation"

        return self._link.run(look())

    # ---- answering ----

    async def _answer(self, wire: Wire, request: Request) -> Response:
        if isinstance(request, Loglik):
            prompt = self._shown(request.prompt)
            if request.listed:
                return await self._scores.first_token(wire, prompt, request.continuations)
            return await self._scores.weigh(wire, prompt, request.continuations)
        if isinstance(request, Generate):
            return self._learn(await self._write(wire, request))
        raise BackendError(f"cannot answer a {type(request).__name__}", where=self.name)

    def _shown(self, prompt: Prompt) -> Prompt:
        """What the server reads: with a chat template given, a conversation is written out here."""
        if not prompt.messages:
            return Prompt(replace_surrogates(prompt.text))
        if self._render is None:
            return prompt
        messages = tuple(Message(m.role, replace_surrogates(m.content)) for m in prompt.messages)
        return Prompt(self._render(fold_system(messages, self._render)))

    async def _write(self, wire: Wire, request: Generate) -> Generated:
        prompt = self._shown(request.prompt)
        talk = bool(request.prompt.messages)

        def read(body: Any) -> Generated:
            choice = only_choice(body)
            text, reasoning, tool = _said(choice) if prompt.messages else (choice.get("text"), "", False)
            if text is not None and not isinstance(text, str):
                raise Malformed("no text")
            if talk and text and not reasoning:
                text, reasoning = apart(text)
            return written(request, text, reasoning, choice.get("finish_reason"), usage_of(body), tool=tool)

        return await self._ask(
            wire,
            "/chat/completions" if prompt.messages else "/completions",
            lambda fit: self._body(prompt, request, fit),
            read,
            tokens=estimated(prompt, self._reply_tokens(request)),
            used=tokens_used,
        )

    def _body(self, prompt: Prompt, request: Generate, fit: Fit) -> Body:
        asked: Body = {"model": self._model}
        if prompt.messages:
            asked["messages"] = [{"role": m.role, "content": replace_surrogates(m.content)} for m in prompt.messages]
        else:
            asked["prompt"] = prompt.text
        optional = {
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "stop": list(request.stop[:_STOPS]) or None,
            "top_p": request.top_p,
            "top_k": request.top_k,
            "repetition_penalty": request.repetition_penalty,
            "no_repeat_ngram_size": request.no_repeat_ngram_size,
            "seed": sampled_seed(request),
        }
        return asked | self._taken(optional, fit)


def _said(choice: Mapping[str, Any]) -> tuple[Any, str, bool]:
    """A chat reply's text, or its refusal (None: neither), its reasoning, and whether it calls a tool."""
    message = choice["message"]
    content = message.get("content")
    if isinstance(content, list):  # some servers answer in parts
        texts = texts_of(content)
        content = "".join(texts) if texts else None
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    tool = bool(message.get("tool_calls") or message.get("function_call"))
    return content or message.get("refusal") or content, reasoning if isinstance(reasoning, str) else "", tool
