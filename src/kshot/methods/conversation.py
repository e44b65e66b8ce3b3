"""Conversations: each reply joins the history before the next turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kshot.core.content import glue
from kshot.core.records import Dialogue, Generate, Message, Prompt, RequestGenerator, Sample, ask
from kshot.methods.generation import Extract, raw


def converse(extract: Extract = raw, **sampling: Any) -> Callable[[Sample, Dialogue], RequestGenerator]:
    """Hold a conversation, turn by turn; the answer is taken from the tuple of all replies."""

    def method(sample: Sample, dialogue: Dialogue) -> RequestGenerator:
        prompt, replies = dialogue.prompt, []
        for turn in (*dialogue.turns, None):
            (reply,) = yield from ask(Generate(prompt, **sampling))
            replies.append(reply.text)
            if turn is not None:
                prompt = _next_prompt(prompt, reply.text, turn)
        return extract(sample, tuple(replies))

    return method


def _next_prompt(prompt: Prompt, reply: str, turn: str) -> Prompt:
    if prompt.messages:
        return Prompt(messages=(*prompt.messages, Message("assistant", reply), Message("user", turn)))
    return Prompt(f"{glue(prompt.text, reply.strip())}\n\n{turn}".strip())
